use super::*;

#[test]
fn every_method_has_a_cell_that_names_it() {
    for method in methods() {
        let name = method.descriptor().name;
        // A method of the tests only.
        if name == "soft-clip" {
            continue;
        }
        let cell = scaffold(name).unwrap_or_else(|error| panic!("{error}"));
        assert!(cell.code().contains("train(&model, &data)?"), "{name}");
    }
    assert!(scaffold("DP_SSGD").unwrap().code().contains("DpSsgd::new()"));
}

/// The kernel can't keep a closure for later cells.
#[test]
fn no_cell_and_no_answer_of_the_cookbook_keeps_a_closure() {
    let cookbook = include_str!("../../../../book/src/how-to/cookbook.md");
    for code in CELLS.iter().map(|cell| cell.code).chain([cookbook]) {
        let kept = code.lines().find(|line| line.starts_with("let ") && line.contains("= |"));
        assert_eq!(kept, None);
    }
}

#[test]
fn an_unknown_cell_is_refused_with_the_names_that_there_are() {
    let error = scaffold("dpsgd").unwrap_err().to_string();
    assert!(
        error.contains("dpsgd") && error.contains("dp-sgd") && error.contains("grid"),
        "{error}"
    );
}

/// `.ci/part format` checks the other direction, because users add files to the folder.
#[test]
fn every_notebook_of_the_table_is_in_the_folder() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("notebooks");
    for (name, _) in NOTEBOOKS {
        assert!(folder.join(format!("{name}.ipynb")).is_file(), "{name}");
    }
}

#[test]
fn help_fits_a_terminal_and_lists_everything() {
    let text = help().to_string();
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    for name in ["dp-ssgd", "backprop-clipping", "Synflow", "Slurm", "save(", "confusion_matrix"] {
        assert!(text.contains(name), "{name}");
    }
}
