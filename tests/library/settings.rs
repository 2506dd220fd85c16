//! The table of settings: each works by name, and book/src/reference/settings.md lists all.

use std::fmt::Write;
use std::path::PathBuf;

use epsilab::methods::{Method, Scope, SettingSpec, methods, shared_settings};
use epsilab::prelude::*;

/// A value of each setting that is not its default.
fn other_value(spec: &SettingSpec) -> &'static str {
    match spec.id {
        "optimizer" => "nesterov",
        "learning_rate_schedule" => "cosine",
        "warm_up" => "0.25",
        "average" => "ema",
        "disjoint_batches" => "zero-out",
        "precision" => "bf16",
        "checkpoint_every" => "10min",
        "noise_schedule" | "clip_schedule" => "decay:0.3",
        "clip_rule" => "auto-s",
        "state_of_dropped" => "zeros",
        "norm" => "l15",
        "freeze" | "train_only" => "*.bias",
        "device" => "cpu",
        "batch_size" | "steps" | "seed" | "freeze_groups" => "3",
        _ if spec.value.is_empty() => "true",
        _ => "0.25",
    }
}

/// The settings that a method has.
fn settings(method: &dyn Method) -> impl Iterator<Item = &'static SettingSpec> {
    let descriptor = method.descriptor();
    shared_settings().filter(|spec| spec.refusal(descriptor).is_none()).chain(descriptor.own)
}

#[test]
fn every_setting_changes_a_method_by_all_its_names_and_is_refused_by_others() {
    for default in methods() {
        for spec in settings(&*default) {
            let value = other_value(spec);
            let mut by_id = default.clone();
            by_id.set(spec.id, value).unwrap_or_else(|error| panic!("{}: {error}", spec.id));
            assert_ne!(*by_id, *default, "{} changes nothing", spec.id);
            let dashed = spec.option();
            for name in spec.aliases.iter().copied().chain([dashed.as_str()]) {
                let mut by_alias = default.clone();
                by_alias.set(name, value).expect(name);
                assert_eq!(*by_alias, *by_id, "{name} of {}", spec.id);
            }
            if !spec.value.is_empty() && !["freeze", "train_only", "device"].contains(&spec.id) {
                let error = default.clone().set(spec.id, "much").expect_err(spec.id);
                assert!(!error.advice().is_empty(), "{}: {error}", spec.id);
            }
        }
        for spec in shared_settings().filter(|spec| spec.refusal(default.descriptor()).is_some()) {
            let error = default.clone().set(spec.id, other_value(spec)).expect_err(spec.id);
            assert!(error.to_string().contains(default.descriptor().name), "{error}");
        }
    }
}

#[test]
fn names_are_distinct_and_unknown_ones_are_refused_with_those_there_are() {
    let mut names = Vec::new();
    for spec in shared_settings() {
        names.extend([spec.id].into_iter().chain(spec.aliases.iter().copied()));
    }
    let twice = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name));
    assert!(twice.is_none(), "{twice:?}");
    let mut method = DpSgd::new();
    let error = method.set("rounds", "3").unwrap_err();
    assert!(error.advice().contains("batch_size") && error.to_string().contains("DP-SGD"));
    // The builder's method, the option and the field's name for it are one setting.
    method.set("target-epsilon", "2").expect("a number");
    method.set("target_delta", "1e-6").expect("a number");
    assert_eq!(method, DpSgd::new().target(Epsilon(2.0), Delta(1e-6)));
}

/// One row of the page.
fn row(page: &mut String, spec: &SettingSpec) {
    let names = [spec.option()].into_iter().chain(spec.aliases.iter().map(|a| a.replace('_', "-")));
    let names: Vec<String> = names.map(|name| format!("`--{name}`")).collect();
    let (names, help, default) = (names.join(", "), spec.help.replace('|', "\\|"), spec.default);
    let default = if default.is_empty() { "-" } else { default };
    writeln!(page, "| `{}` | {names} | {help} | {default} |", spec.id).expect("written");
}

/// The page of settings.
fn page() -> String {
    let mut page = "\
# Settings

All settings of training methods, from the library's table. The first column is the name of the
builder's method and the key in files, the second has the options of `train`, `grid` and `sweep`. The
defaults are the library's; [training](training.md#settings) names those of the commands.
"
    .to_owned();
    let head = "\n| setting | options | meaning | default |\n|---|---|---|---|\n";
    for (title, scopes) in [
        ("All methods", &[Scope::Shared, Scope::Execution][..]),
        ("Private methods", &[Scope::Private, Scope::Clip]),
        ("Methods that take masks and gradient dropping", &[Scope::Sparse]),
    ] {
        write!(page, "\n## {title}\n{head}").expect("written");
        let of_scopes = shared_settings().filter(|spec| scopes.contains(&spec.scope));
        of_scopes.for_each(|spec| row(&mut page, spec));
    }
    for method in methods() {
        let descriptor = method.descriptor();
        // Methods that other tests have registered are not the library's.
        if descriptor.own.is_empty() || descriptor.name == "power-clip" {
            continue;
        }
        write!(page, "\n## {} (`{}`)\n{head}", descriptor.title, descriptor.name).expect("written");
        descriptor.own.iter().for_each(|spec| row(&mut page, spec));
    }
    page.push_str(
        "\nMasks and gradient dropping have options of their own (`--mask`, `--pre-prune`, `--drop`,\n\
         `--drop-rule`), and in the library `.pre_prune(…)` and `.drop_gradients(…)`.\n",
    );
    page
}

/// `EPSILAB_WRITE_DOCS=1` writes the page.
#[test]
fn the_page_lists_all_settings() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("book/src/reference/settings.md");
    if std::env::var_os("EPSILAB_WRITE_DOCS").is_some() {
        std::fs::write(&path, page()).expect("written");
    }
    let saved = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(saved == page(), "save it again: EPSILAB_WRITE_DOCS=1 cargo test settings");
}
