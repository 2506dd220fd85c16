//! The library against files that are not part of the repository: reference values of other
//! programs, and real data sets. A test is ignored where its file is missing, and says so.
//!
//! `EPSILAB_SHARED` names the folder with these files, by default `../shared` beside the
//! repository. `EPSILAB_REQUIRE_SHARED=1` makes a missing file a failure.
//!
//! Run all with `cargo test --workspace --test reference`, some with
//! `cargo test --workspace --test reference data::`, and the long ones with `-- --ignored`.

// `device::executor` loads what it shares with other modules itself, for `software-gpu`.
#![allow(clippy::duplicate_mod)]

#[macro_use]
mod harness;
#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod accounting;
mod backprop_clip;
mod data;
mod device;
mod layers;
mod masks;
mod mnist;
mod per_example;

#[path = "../library/per_example/compare.rs"]
#[allow(dead_code)]
mod compare;
#[path = "../library/per_example/executors.rs"]
#[allow(dead_code)]
mod executors;
mod golden_networks;
#[path = "../library/masks/networks.rs"]
mod networks;

use harness::Test;
use support::files::PER_EXAMPLE;

/// Every test, with the file or folder that it needs.
fn tests() -> Vec<Test> {
    let mut tests = tests![
        accounting::FILE => accounting::every_row_of_the_file_has_a_test,
        accounting::FILE => accounting::every_tolerance_is_narrow_enough_to_reject_a_wrong_value,
        accounting::FILE => accounting::the_named_order_lists_are_those_of_the_goldens,
        PER_EXAMPLE => backprop_clip::every_executor_agrees_with_pytorch,
        PER_EXAMPLE => device::a_mask_applies_to_norm_and_sum,
        PER_EXAMPLE => device::copies_are_averaged_before_clipping,
        PER_EXAMPLE => device::squared_parameters_as_weights_agree_with_pytorch,
        PER_EXAMPLE => device::sums_and_norms_agree_with_pytorch,
        PER_EXAMPLE => layers::per_example_gradients_of_every_layer_match_pytorch,
        PER_EXAMPLE => masks::magnitude_selection_agrees_with_the_reference,
        PER_EXAMPLE => masks::scores_and_masks_agree_with_the_reference,
        PER_EXAMPLE => masks::the_values_in_the_repository_are_those_of_the_reference,
        PER_EXAMPLE => per_example::a_mask_applies_to_the_norm_and_to_the_sum,
        PER_EXAMPLE => per_example::copies_are_averaged_before_clipping,
        PER_EXAMPLE => per_example::every_executor_agrees_with_pytorch,
        PER_EXAMPLE => per_example::squared_parameters_as_weights_give_the_norm_of_connection_sensitivities,
        "datasets/ag_news_csv" => data::the_real_part_of_ag_news_is_read,
        "datasets/cifar-10" => data::the_real_cifar_10_is_balanced,
        "datasets/cifar-100-subset" => data::the_real_part_of_cifar_100_is_used_as_a_part,
        "datasets/fashion-mnist" => data::the_real_fashion_mnist_is_balanced,
        "datasets/mnist" => data::a_damaged_copy_of_the_real_mnist_is_refused,
        "datasets/mnist" => data::the_real_mnist_has_its_known_digits,
        "datasets/mnist" => data::the_real_mnist_read_as_files_of_ones_own_shares_its_ledger,
        "datasets/mnist" => masks::on_mnist_the_overlap_with_snip_grows_with_epsilon,
        "datasets/mnist" => mnist::dp_sgd_learns_within_few_epochs,
    ];
    let long =
        tests!["datasets/mnist" => mnist::dp_sgd_reaches_97_and_a_half_percent_at_epsilon_3,];
    tests.extend(long.into_iter().map(Test::long));
    tests.extend(accounting::ROWS.iter().map(|&id| {
        let name = format!("accounting::{}", id.replace('-', "_"));
        Test::new(name, accounting::FILE, move || accounting::check(id))
    }));
    tests
}

fn main() -> std::process::ExitCode {
    harness::run(tests())
}
