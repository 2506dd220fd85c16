//! Values for the parameters of a notebook, as in papermill: the cell with the tag `parameters`
//! defines variables, and a cell that is inserted after it gives them new values.

use std::path::Path;

use epsilab::{Error, ErrorKind, Result};
use ra_ap_syntax::ast::{self, AstNode};
use ra_ap_syntax::{Edition, SourceFile};

use super::notebook::Notebook;

const PARAMETERS_TAG: &str = "parameters";
const INJECTED_TAG: &str = "injected-parameters";

/// The name of a parameter and the text of its value.
pub type Param = (String, String);

/// Reads a parameter: `NAME=VALUE`.
///
/// # Errors
/// A message if there is no `=`, or if the text before it is not the name of a variable.
pub fn read(text: &str) -> Result<Param, String> {
    let (name, value) =
        text.split_once('=').ok_or("a parameter is written NAME=VALUE, such as epochs=3")?;
    let word = |c: char| c == '_' || c.is_alphanumeric();
    if name.is_empty() || !name.chars().all(word) || name.starts_with(char::is_numeric) {
        return Err(format!("`{name}` is not the name of a variable"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Inserts a cell with the values, in the place of one that an earlier run inserted. `path` names
/// the notebook in errors.
///
/// # Errors
/// The notebook has no cell for parameters, or that cell has no such variable.
pub fn inject(notebook: &mut Notebook, params: &[Param], path: &Path) -> Result<()> {
    if params.is_empty() {
        return Ok(());
    }
    if let Some((at, _)) = notebook.find_tagged_cell(INJECTED_TAG) {
        notebook.remove_cell(at);
    }
    let Some((at, source)) = notebook.find_tagged_cell(PARAMETERS_TAG) else {
        return Err(Error::new(
            ErrorKind::Notebook,
            format!("{} has no parameters", path.display()),
            format!(
                "no code cell has the tag `{PARAMETERS_TAG}`, so `--params` would have no \
                 effect"
            ),
        )
        .fix(format!(
            "give the tag `{PARAMETERS_TAG}` to the cell that defines the variables (in \
             JupyterLab: property inspector, the gears at the top right)"
        )));
    };
    let known = defined_variables(&source);
    if let Some((name, value)) = params.iter().find(|(name, _)| !known.contains(name)) {
        return Err(Error::new(
            ErrorKind::Notebook,
            format!("--params {name}={value}"),
            format!("{} has no such parameter", path.display()),
        )
        .fix(match known.as_slice() {
            [] => {
                format!("the cell with the tag `{PARAMETERS_TAG}` defines no variable: add `let`")
            }
            known => format!("choose one of: {}", known.join(", ")),
        }));
    }
    let mut cell = "// Parameters of this run\n".to_owned();
    for (name, value) in params {
        cell +=
            &format!("let mut {name} = epsilab::lab::parameter(\"{name}\", {name}, {value:?})?;\n");
    }
    notebook.insert_code_cell(at + 1, cell.trim_end(), INJECTED_TAG);
    Ok(())
}

/// Returns the names of the variables that the cell defines.
fn defined_variables(source: &str) -> Vec<String> {
    // Lines with commands of the kernel are no Rust.
    let rust = source.lines().filter(|line| !line.trim_start().starts_with(':'));
    let code = format!("fn cell() {{\n{}\n}}", rust.collect::<Vec<_>>().join("\n"));
    let file = SourceFile::parse(&code, Edition::Edition2024).tree();
    let body = file.syntax().descendants().find_map(ast::StmtList::cast);
    let statements = body.into_iter().flat_map(|body| body.statements());
    statements
        .filter_map(|statement| ast::LetStmt::cast(statement.syntax().clone())?.pat())
        .flat_map(|pattern| pattern.syntax().descendants().filter_map(ast::IdentPat::cast))
        .filter_map(|pattern| ast::HasName::name(&pattern))
        .map(|name| name.text().to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notebook(cells: &str) -> Notebook {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.ipynb");
        std::fs::write(&path, format!("{{\"nbformat\":4,\"cells\":[{cells}]}}")).expect("written");
        Notebook::open_for_execution(&path).expect("valid")
    }

    fn params(texts: &[&str]) -> Vec<Param> {
        texts.iter().map(|text| read(text).expect("valid")).collect()
    }

    const CELLS: &str = r#"
        {"cell_type":"code","source":"let other = 1;"},
        {"cell_type":"code","metadata":{"tags":["parameters"]},
         "source":":time\nlet epochs: usize = 5; // passes\nlet (a, mut data) = (1, \"mnist\");"},
        {"cell_type":"code","source":"epochs"}"#;

    #[test]
    fn values_come_in_a_cell_behind_the_parameters() {
        let mut notebook = notebook(CELLS);
        inject(&mut notebook, &params(&["epochs=3", "data=a\"b"]), Path::new("a")).expect("known");
        let (at, source) = notebook.find_tagged_cell(INJECTED_TAG).expect("inserted");
        assert_eq!(at, 2);
        assert_eq!(
            source,
            "// Parameters of this run\n\
             let mut epochs = epsilab::lab::parameter(\"epochs\", epochs, \"3\")?;\n\
             let mut data = epsilab::lab::parameter(\"data\", data, \"a\\\"b\")?;"
        );
        assert_eq!(notebook.code_cells().len(), 4);
        inject(&mut notebook, &params(&["a=2"]), Path::new("a")).expect("known");
        let (at, source) = notebook.find_tagged_cell(INJECTED_TAG).expect("inserted");
        assert!(
            at == 2 && notebook.code_cells().len() == 4 && !source.contains("epochs"),
            "{source}"
        );
        let cell = &notebook.as_json()["cells"][2];
        assert!(cell["id"].is_string() && cell["outputs"].is_array(), "{cell}");
    }

    #[test]
    fn unknown_parameters_are_refused_with_those_that_exist() {
        let refused = |cells: &str, param: &str| {
            let failed = inject(&mut notebook(cells), &params(&[param]), Path::new("a.ipynb"));
            failed.expect_err("refused").to_string()
        };
        assert!(refused(CELLS, "epoch=3").contains("choose one of: epochs, a, data"));
        assert!(refused(CELLS, "other=3").contains("no such parameter"));
        let none = r#"{"cell_type":"code","source":"let epochs = 1;"}"#;
        assert!(refused(none, "epochs=3").contains("tag `parameters`"));
        assert!(inject(&mut notebook(none), &[], Path::new("a")).is_ok());
    }

    #[test]
    fn parameters_are_written_as_name_and_value() {
        assert_eq!(read("a=b=c").expect("valid").1, "b=c");
        assert_eq!(read("a=").expect("valid").1, "");
        for wrong in ["epochs", "=3", "a b=3", "1a=3", "a);drop(b=1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
