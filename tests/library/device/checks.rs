//! The lists of checks. Each passes its checks to the macro `$then`, as `name: path` pairs.

/// All checks that run on any device.
#[allow(unused_macros)] // The lab runs the two lists in two test programs.
macro_rules! all_checks {
    ($then:ident) => {
        independent_checks!($then);
        golden_checks!($then);
    };
}

/// The checks against PyTorch's values, which are not part of the repository.
#[allow(unused_macros)]
macro_rules! golden_checks {
    ($then:ident) => {
        $then! {
            sums_and_norms_agree_with_pytorch: executor::goldens::sums_and_norms_agree_with_pytorch,
            copies_are_averaged_before_clipping:
                executor::goldens::copies_are_averaged_before_clipping,
            a_mask_applies_to_norm_and_sum:
                executor::goldens::a_mask_applies_to_norm_and_sum,
            squared_parameters_as_weights_agree_with_pytorch:
                executor::goldens::squared_parameters_as_weights_agree_with_pytorch,
        }
    };
}

/// The checks that need no other files.
#[allow(unused_macros)]
macro_rules! independent_checks {
    ($then:ident) => {
        $then! {
            batches_from_memory_equal_those_of_the_host:
                data::batches_from_memory_equal_those_of_the_host,
            unknown_tokens_are_refused: data::unknown_tokens_are_refused,
            predictions_equal_those_of_the_host: data::predictions_equal_those_of_the_host,
            ties_and_empty_data: data::ties_and_empty_data,
            batches_from_files_equal_those_of_the_host:
                files::batches_from_files_equal_those_of_the_host,
            a_broken_file_is_left_out_of_its_batches: files::a_broken_file_is_left_out_of_its_batches,
            predictions_from_files_equal_those_of_the_host:
                files::predictions_from_files_equal_those_of_the_host,
            noise_equals_that_of_the_host: steps::noise_equals_that_of_the_host,
            selected_noise_equals_that_of_the_host_and_the_rest_is_zero:
                steps::selected_noise_equals_that_of_the_host_and_the_rest_is_zero,
            invalid_noise_is_refused_without_a_host_sync:
                steps::invalid_noise_is_refused_without_a_host_sync,
            a_mechanism_step_equals_that_of_the_host:
                steps::a_mechanism_step_equals_that_of_the_host,
            magnitude_selection_equals_that_of_the_host:
                steps::magnitude_selection_equals_that_of_the_host,
            optimizers_and_averages_equal_those_of_the_host:
                optimizers::optimizers_and_averages_equal_those_of_the_host,
            random_networks_agree_with_the_reference_executor:
                executor::networks::random_networks_agree_with_the_reference_executor,
            zoo_models_agree_with_the_reference_executor:
                executor::networks::zoo_models_agree_with_the_reference_executor,
            gradients_of_tied_parameters_are_added_before_the_norm:
                executor::networks::gradients_of_tied_parameters_are_added_before_the_norm,
            plain_sums_agree_with_the_reference_executor:
                executor::networks::plain_sums_agree_with_the_reference_executor,
            layers_with_clips_agree_with_the_reference_executor:
                executor::networks::layers_with_clips_agree_with_the_reference_executor,
            dropout_masks_depend_on_the_seed: executor::networks::dropout_masks_depend_on_the_seed,
            chunks_change_only_rounding: executor::networks::chunks_change_only_rounding,
            non_finite_examples_contribute_exactly_zero:
                executor::bad::non_finite_examples_contribute_exactly_zero,
            a_non_finite_example_changes_no_other_contribution:
                executor::bad::a_non_finite_example_changes_no_other_contribution,
            an_infinite_loss_excludes_its_example:
                executor::bad::an_infinite_loss_excludes_its_example,
            plain_sums_exclude_non_finite_examples:
                executor::bad::plain_sums_exclude_non_finite_examples,
            tiny_and_huge_gradients_are_clipped:
                executor::edges::tiny_and_huge_gradients_are_clipped,
            a_huge_input_with_a_tiny_gradient_is_clipped:
                executor::edges::a_huge_input_with_a_tiny_gradient_is_clipped,
            bf16_rounds_contributions_but_keeps_the_clipping_norm:
                executor::precision::bf16_rounds_contributions_but_keeps_the_clipping_norm,
            bf16_training_reaches_the_same_accuracy:
                executor::precision::bf16_training_reaches_the_same_accuracy,
            fixed_size_passes_give_gradients_independent_of_the_batch:
                executor::edges::fixed_size_passes_give_gradients_independent_of_the_batch,
            an_empty_batch_gives_zeros: executor::edges::an_empty_batch_gives_zeros,
            wrong_shapes_labels_and_clipping_norms_are_refused:
                executor::edges::wrong_shapes_labels_and_clipping_norms_are_refused,
        }
    };
}
