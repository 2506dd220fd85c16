//! What a card does, tried on the CPU: the checks take the device, so that the same text can be
//! run on any other.

#[allow(dead_code)] // What needs a device that is not the CPU is called elsewhere.
mod executor;

use epsilab::burn::prelude::Device;

/// The checks of a module as tests on the CPU.
macro_rules! on_the_cpu {
    ($($module:ident::$check:ident),* $(,)?) => {
        $(
            #[test]
            fn $check() {
                executor::$module::$check(&Device::flex());
            }
        )*
    };
}

on_the_cpu!(
    goldens::it_agrees_with_pytorch,
    goldens::copies_are_averaged_and_then_clipped_once,
    goldens::a_mask_counts_in_the_norm_and_in_the_sum,
    goldens::squared_parameters_are_weights,
    networks::it_agrees_with_the_oracle_on_random_networks,
    networks::it_agrees_with_the_oracle_on_the_zoo,
    networks::parameters_used_twice_are_added_before_the_norm,
    networks::plain_sums_are_those_of_the_oracle,
    networks::dropout_masks_go_by_the_seed,
    networks::chunks_change_rounding_only,
    bad::what_is_not_finite_adds_exactly_nothing,
    bad::a_bad_example_changes_no_other_share,
    bad::an_infinite_loss_leaves_its_example_out,
    bad::plain_sums_leave_bad_examples_out,
    edges::tiny_and_huge_gradients_are_clipped,
    edges::a_huge_input_with_a_tiny_gradient_is_clipped,
    edges::an_empty_batch_gives_zeros,
    edges::rows_of_no_single_example_and_wrong_data_are_refused,
);
