//! The checks, by name.

/// Hands all checks that suit any device to a macro.
macro_rules! all_checks {
    ($then:ident) => {
        $then! {
            batches_from_memory: data::batches_from_memory,
            strange_tokens: data::strange_tokens,
            predictions: data::predictions,
            ties_and_nothing: data::ties_and_nothing,
            batches_from_files: files::batches_from_files,
            a_file_that_breaks: files::a_file_that_breaks,
            predictions_from_files: files::predictions_from_files,
            noise_is_that_of_the_host: steps::noise_is_that_of_the_host,
            selected_noise_is_that_of_the_host_and_the_others_are_zero:
                steps::selected_noise_is_that_of_the_host_and_the_others_are_zero,
            wrong_noise_is_refused_without_a_look: steps::wrong_noise_is_refused_without_a_look,
            a_step_is_noised_and_divided_as_on_the_host:
                steps::a_step_is_noised_and_divided_as_on_the_host,
            the_choice_of_a_step_is_that_of_the_host:
                steps::the_choice_of_a_step_is_that_of_the_host,
            it_agrees_with_pytorch: executor::goldens::it_agrees_with_pytorch,
            copies_are_averaged_and_then_clipped_once:
                executor::goldens::copies_are_averaged_and_then_clipped_once,
            a_mask_counts_in_the_norm_and_in_the_sum:
                executor::goldens::a_mask_counts_in_the_norm_and_in_the_sum,
            squared_parameters_are_weights: executor::goldens::squared_parameters_are_weights,
            it_agrees_with_the_oracle_on_random_networks:
                executor::networks::it_agrees_with_the_oracle_on_random_networks,
            it_agrees_with_the_oracle_on_the_zoo:
                executor::networks::it_agrees_with_the_oracle_on_the_zoo,
            parameters_used_twice_are_added_before_the_norm:
                executor::networks::parameters_used_twice_are_added_before_the_norm,
            plain_sums_are_those_of_the_oracle:
                executor::networks::plain_sums_are_those_of_the_oracle,
            dropout_masks_go_by_the_seed: executor::networks::dropout_masks_go_by_the_seed,
            chunks_change_rounding_only: executor::networks::chunks_change_rounding_only,
            what_is_not_finite_adds_exactly_nothing:
                executor::bad::what_is_not_finite_adds_exactly_nothing,
            a_bad_example_changes_no_other_share:
                executor::bad::a_bad_example_changes_no_other_share,
            an_infinite_loss_leaves_its_example_out:
                executor::bad::an_infinite_loss_leaves_its_example_out,
            plain_sums_leave_bad_examples_out: executor::bad::plain_sums_leave_bad_examples_out,
            tiny_and_huge_gradients_are_clipped:
                executor::edges::tiny_and_huge_gradients_are_clipped,
            a_huge_input_with_a_tiny_gradient_is_clipped:
                executor::edges::a_huge_input_with_a_tiny_gradient_is_clipped,
            shares_are_rounded_but_never_longer:
                executor::precision::shares_are_rounded_but_never_longer,
            it_learns_as_well: executor::precision::it_learns_as_well,
            steady_passes_leave_the_others_alone:
                executor::edges::steady_passes_leave_the_others_alone,
            an_empty_batch_gives_zeros: executor::edges::an_empty_batch_gives_zeros,
            rows_of_no_single_example_and_wrong_data_are_refused:
                executor::edges::rows_of_no_single_example_and_wrong_data_are_refused,
        }
    };
}
