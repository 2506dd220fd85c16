//! Notebook files: reads and checks them, adds cell ids and kernelspec, writes them as Jupyter
//! does.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use epsilab::{Error, ErrorKind, Result};
use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::folder::entries;
use crate::prebuilt::hex;

/// Name of this kernel in notebooks.
pub const KERNEL_NAME: &str = "epsilab";

/// A notebook of format 4, as JSON whose form was checked.
#[derive(Clone, Debug)]
pub struct Notebook {
    json: Value,
}

/// Returns the text of a field that may be a string or a list of lines.
pub fn multiline_to_string(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

/// Converts text to the form that notebooks store: a list of lines, each with its line break.
pub fn string_to_multiline(text: &str) -> Value {
    text.split_inclusive('\n').map(Value::from).collect()
}

/// Converts a MIME bundle to the form that notebooks store: text as lines, binary data as one
/// string.
pub fn stored(bundle: &impl Serialize) -> Value {
    let is_text = |kind: &str| {
        kind.starts_with("text/") || matches!(kind, "application/javascript" | "image/svg+xml")
    };
    let Ok(Value::Object(mut data)) = serde_json::to_value(bundle) else { return json!({}) };
    for (kind, value) in &mut data {
        if let Value::String(text) = value
            && is_text(kind)
        {
            *value = string_to_multiline(text);
        }
    }
    data.into()
}

impl Notebook {
    /// Reads and checks the notebook at `path`.
    ///
    /// # Errors
    /// No such file, not a notebook, a format other than 4, or a notebook for another kernel.
    pub fn open_for_execution(path: &Path) -> Result<Self> {
        let mut notebook = Self::open_with_outputs(path)?;
        validate_kernel(&notebook.json, path)?;
        notebook.normalise();
        Ok(notebook)
    }

    /// Reads the notebook at `path` as it was saved, with its outputs, from any kernel.
    ///
    /// # Errors
    /// No such file, not a notebook, or a format other than 4.
    pub fn open_with_outputs(path: &Path) -> Result<Self> {
        let shown = path.display();
        let wrong = |what: &str, why: String| {
            Error::new(ErrorKind::Notebook, format!("{shown} {what}"), why)
        };
        if path.is_dir() {
            return Err(wrong("is a folder", "a notebook is one file".into())
                .fix("name a file in it that ends in .ipynb"));
        }
        if path.extension().is_none_or(|e| e != "ipynb") {
            return Err(wrong("is not a notebook", "the name does not end in .ipynb".into())
                .fix("name a Jupyter notebook"));
        }
        let bytes = std::fs::read(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => not_found_error(path),
            _ => Error::io(format!("reading {shown}"), &e),
        })?;
        let json: Value = serde_json::from_slice(&bytes).map_err(|e| {
            wrong("is not a notebook", format!("the file is not JSON ({e})"))
                .fix("if an editor or a merge damaged it, take an older version of the file")
        })?;
        validate_format(&json, &wrong)?;
        Ok(Self { json })
    }

    /// Creates a notebook from JSON in the form of nbformat 4.
    pub fn from_json(json: Value) -> Self {
        Self { json }
    }

    /// Returns the notebook as JSON of nbformat 4.
    pub fn as_json(&self) -> &Value {
        &self.json
    }

    /// Returns index and source of each code cell that is not empty, in order.
    pub fn code_cells(&self) -> Vec<(usize, String)> {
        let cells = self.json["cells"].as_array().into_iter().flatten();
        cells
            .enumerate()
            .filter(|(_, cell)| cell["cell_type"] == "code")
            .map(|(index, cell)| (index, multiline_to_string(&cell["source"])))
            .filter(|(_, source)| !source.trim().is_empty())
            .collect()
    }

    /// Returns whether the cell may fail (tag `raises-exception`).
    pub fn may_fail(&self, cell: usize) -> bool {
        self.has_tag(cell, "raises-exception")
    }

    /// Returns whether the cell has this tag.
    pub fn has_tag(&self, cell: usize, tag: &str) -> bool {
        has_tag(&self.json["cells"][cell], tag)
    }

    /// Removes the outputs of all cells, and the metadata about them.
    pub fn clear_outputs(&mut self) {
        for cell in self.json["cells"].as_array_mut().into_iter().flatten() {
            if cell["cell_type"] == "code" {
                cell["execution_count"] = Value::Null;
                cell["outputs"] = json!([]);
            }
        }
        let metadata = self.json["metadata"].as_object_mut();
        let epsilab =
            metadata.and_then(|all| all.get_mut("epsilab")).and_then(Value::as_object_mut);
        if let Some(epsilab) = epsilab {
            epsilab.remove("redacted");
            epsilab.remove("saved");
        }
    }

    /// Returns index and source of the first code cell with this tag.
    pub fn find_tagged_cell(&self, tag: &str) -> Option<(usize, String)> {
        let cells = self.json["cells"].as_array()?;
        let is_it = |cell: &Value| cell["cell_type"] == "code" && has_tag(cell, tag);
        let at = cells.iter().position(is_it)?;
        Some((at, multiline_to_string(&cells[at]["source"])))
    }

    /// Inserts a code cell with this tag before cell `at`.
    pub fn insert_code_cell(&mut self, at: usize, source: &str, tag: &str) {
        if let Some(cells) = self.json["cells"].as_array_mut() {
            let cell = json!({"cell_type": "code", "source": source, "metadata": {"tags": [tag]}});
            cells.insert(at.min(cells.len()), cell);
        }
        self.normalise();
    }

    /// Removes a cell.
    pub fn remove_cell(&mut self, cell: usize) {
        if let Some(cells) = self.json["cells"].as_array_mut()
            && cell < cells.len()
        {
            cells.remove(cell);
        }
    }

    /// Sets execution count and outputs of a code cell.
    pub fn set_outputs(&mut self, cell: usize, count: Option<u64>, outputs: Vec<Value>) {
        if let Some(cell) = self.json["cells"].get_mut(cell) {
            cell["execution_count"] = count.map_or(Value::Null, Value::from);
            cell["outputs"] = Value::Array(outputs);
        }
    }

    /// Sets the language information of the kernel.
    pub fn set_language(&mut self, language: Value) {
        self.json["metadata"]["language_info"] = language;
    }

    /// Returns the text of the file, as Jupyter writes it: sorted keys, one space of indent.
    ///
    /// # Errors
    /// Kind `Notebook` if the notebook can't be written as JSON; no such case is known.
    pub fn to_text(&self) -> Result<String> {
        let failed = |why: String| Error::new(ErrorKind::Notebook, "writing the notebook", why);
        let mut bytes = Vec::new();
        let format = serde_json::ser::PrettyFormatter::with_indent(b" ");
        let mut writer = serde_json::Serializer::with_formatter(&mut bytes, format);
        let mut sorted = self.json.clone();
        sorted.sort_all_objects();
        sorted.serialize(&mut writer).map_err(|e| failed(e.to_string()))?;
        bytes.push(b'\n');
        String::from_utf8(bytes).map_err(|e| failed(e.to_string()))
    }

    /// Clears old outputs and adds the fields that nbformat 4.5 requires.
    fn normalise(&mut self) {
        self.json["nbformat_minor"] =
            json!(self.json["nbformat_minor"].as_u64().unwrap_or(0).max(5));
        let metadata = ensure_object(&mut self.json["metadata"]);
        metadata.insert(
            "kernelspec".into(),
            json!({"display_name": "Epsilab (Rust)", "language": "rust", "name": KERNEL_NAME}),
        );
        let mut seen = HashSet::new();
        let cells = self.json["cells"].as_array_mut().map(Vec::as_mut_slice).unwrap_or_default();
        for (index, cell) in cells.iter_mut().enumerate() {
            let source = multiline_to_string(&cell["source"]);
            let id = match cell["id"].as_str() {
                Some(id) if is_cell_id(id) && !seen.contains(id) => id.to_owned(),
                _ => new_cell_id(index, &source, &seen),
            };
            cell["source"] = string_to_multiline(&source);
            ensure_object(&mut cell["metadata"]);
            cell["id"] = json!(id);
            seen.insert(id);
        }
        // A redacted copy that runs again has all outputs.
        self.clear_outputs();
    }
}

fn has_tag(cell: &Value, tag: &str) -> bool {
    let tags = cell["metadata"]["tags"].as_array();
    tags.is_some_and(|tags| tags.iter().any(|known| known == tag))
}

fn not_found_error(path: &Path) -> Error {
    let current_dir = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let beside = list_notebooks(parent_of(path));
    let beside = beside.iter().filter_map(|notebook| notebook.file_name()?.to_str()).take(8);
    let fix = match beside.collect::<Vec<_>>().as_slice() {
        [] => "check the path; notebooks of the lab are in `notebooks/`".to_owned(),
        found => format!("notebooks there: {}", found.join(", ")),
    };
    Error::new(
        ErrorKind::Notebook,
        format!("no notebook {}", path.display()),
        format!("there is no such file (looked from {})", current_dir.display()),
    )
    .fix(fix)
}

/// Returns the notebooks in a folder by name, without those that `run` wrote.
pub fn list_notebooks(folder: &Path) -> Vec<PathBuf> {
    let is_source = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".ipynb") && !name.contains(".executed.")
    };
    let mut found: Vec<PathBuf> = entries(folder).filter(is_source).collect();
    found.sort();
    found
}

/// Returns the folder of a file. The parent of a bare file name is empty.
pub fn parent_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn validate_format(json: &Value, wrong: &dyn Fn(&str, String) -> Error) -> Result<()> {
    let none =
        |why: &str| Err(wrong("is not a notebook", why.to_owned()).fix("name a Jupyter notebook"));
    let Some(format) = json["nbformat"].as_u64() else {
        return none("the file is JSON without `nbformat`");
    };
    if format < 4 {
        return Err(wrong(&format!("has format {format}"), "only format 4 can be run".into()).fix(
            "convert it with `jupyter nbconvert --to notebook --nbformat 4 FILE`, \
             or open and save it in JupyterLab",
        ));
    }
    if format > 4 {
        return Err(wrong(&format!("has format {format}"), "this version knows format 4".into())
            .fix("save it as format 4, or update Epsilab"));
    }
    let Some(cells) = json["cells"].as_array() else {
        return none("the file has no list of cells");
    };
    for (index, cell) in cells.iter().enumerate() {
        let kind = cell["cell_type"].as_str();
        let source = &cell["source"];
        let known = matches!(kind, Some("code" | "markdown" | "raw"));
        let lines = source.as_array().is_some_and(|lines| lines.iter().all(Value::is_string));
        if !known || !(source.is_string() || lines) {
            let why = format!("cell {} has no known type or no source", index + 1);
            return Err(
                wrong("is damaged", why).fix("open it in JupyterLab, delete that cell and save")
            );
        }
    }
    Ok(())
}

/// Accepts notebooks for this kernel, for any Rust kernel, or without a kernel.
fn validate_kernel(json: &Value, path: &Path) -> Result<()> {
    let spec = &json["metadata"]["kernelspec"];
    let name = spec["name"].as_str();
    let language = spec["language"]
        .as_str()
        .or_else(|| json["metadata"]["language_info"]["name"].as_str())
        .map(str::to_lowercase);
    let is_supported = match (name, language.as_deref()) {
        (_, Some(language)) => language == "rust",
        (Some(name), None) => matches!(name, KERNEL_NAME | "rust"),
        (None, None) => true,
    };
    if is_supported {
        return Ok(());
    }
    let wants = match (name, language) {
        (Some(name), Some(language)) => format!("the kernel \"{name}\" (language {language})"),
        (Some(name), None) => format!("the kernel \"{name}\""),
        (None, language) => format!("a kernel for {}", language.unwrap_or_default()),
    };
    Err(Error::new(
        ErrorKind::Notebook,
        format!("{} is for another kernel", path.display()),
        format!(
            "the notebook requires {wants}; this command runs Rust notebooks on the kernel \
             \"{KERNEL_NAME}\""
        ),
    )
    .fix(format!(
        "run it with `jupyter execute {}`; if it is a Rust notebook after all, choose \
         \"Epsilab (Rust)\" in JupyterLab (Kernel, Change Kernel) and save",
        path.display()
    )))
}

/// Returns the value as an object. Any other value is replaced by an empty object.
pub fn ensure_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it was just made an object")
}

fn is_cell_id(id: &str) -> bool {
    (1..=64).contains(&id.len())
        && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

/// Returns a cell id derived from position and content, so that equal notebooks give equal files.
fn new_cell_id(index: usize, source: &str, taken: &HashSet<String>) -> String {
    (0u32..)
        .map(|attempt| {
            let hash = Sha256::digest(format!("{index}\n{attempt}\n{source}"));
            hex(&hash[..4])
        })
        .find(|id| !taken.contains(id))
        .expect("there are more ids than cells")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Notebook> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.ipynb");
        std::fs::write(&path, text).expect("written");
        Notebook::open_for_execution(&path)
    }

    #[track_caller]
    fn refused(text: &str, words: &str) {
        let error = read(text).expect_err("refused").to_string();
        assert!(error.contains(words) && error.contains("what to do"), "{error}");
    }

    fn with_metadata(metadata: &str) -> String {
        format!("{{\"nbformat\":4,\"nbformat_minor\":2,\"metadata\":{metadata},\"cells\":[]}}")
    }

    #[test]
    fn files_that_are_no_notebooks_are_refused_with_advice() {
        refused("not json", "not JSON");
        refused("{}", "without `nbformat`");
        refused("[1]", "without `nbformat`");
        refused("{\"nbformat\":3,\"worksheets\":[]}", "format 3");
        refused("{\"nbformat\":5,\"cells\":[]}", "format 5");
        refused("{\"nbformat\":4}", "no list of cells");
        refused("{\"nbformat\":4,\"cells\":[{\"cell_type\":\"code\"}]}", "cell 1");
        refused("{\"nbformat\":4,\"cells\":[3]}", "cell 1");
        let error =
            Notebook::open_for_execution(Path::new("/nowhere/a.ipynb")).expect_err("missing");
        assert!(error.to_string().contains("no notebook /nowhere/a.ipynb"), "{error}");
        assert!(Notebook::open_for_execution(Path::new("Cargo.toml")).is_err());
    }

    #[test]
    fn notebooks_for_another_kernel_are_named_and_ours_pass() {
        refused(&with_metadata(r#"{"kernelspec":{"name":"python3","language":"python"}}"#), {
            "the kernel \"python3\" (language python)"
        });
        refused(&with_metadata(r#"{"language_info":{"name":"julia"}}"#), "julia");
        refused(&with_metadata(r#"{"kernelspec":{"name":"ir"}}"#), "\"ir\"");
        for ours in [
            "{}",
            r#"{"kernelspec":{"name":"epsilab"}}"#,
            r#"{"kernelspec":{"name":"rust"}}"#,
            r#"{"kernelspec":{"name":"my-lab","language":"rust"}}"#,
            r#"{"language_info":{"name":"Rust"}}"#,
        ] {
            assert!(read(&with_metadata(ours)).is_ok(), "{ours}");
        }
    }

    #[test]
    fn cells_get_valid_stable_ids_and_lose_old_outputs() {
        let text = r#"{"nbformat":4,"nbformat_minor":4,"cells":[
            {"cell_type":"code","source":"1","outputs":[1],"execution_count":9,"id":"keep"},
            {"cell_type":"code","source":["2\n","3"],"id":"keep"},
            {"cell_type":"markdown","source":"x","id":"not valid!"}]}"#;
        let (a, b) = (read(text).expect("valid"), read(text).expect("valid"));
        assert_eq!(a.to_text().expect("text"), b.to_text().expect("text"));
        let ids: Vec<_> =
            (0..3).map(|i| a.as_json()["cells"][i]["id"].as_str().expect("an id")).collect();
        assert_eq!(ids[0], "keep");
        assert!(ids.iter().all(|id| is_cell_id(id)) && ids[1] != "keep" && ids[1] != ids[2]);
        assert_eq!(a.as_json()["nbformat_minor"], 5);
        assert_eq!(a.as_json()["cells"][0]["outputs"], json!([]));
        assert_eq!(a.code_cells(), [(0, "1".to_owned()), (1, "2\n3".to_owned())]);
        assert!(a.to_text().expect("text").starts_with("{\n \"cells\": [\n  {\n   \"cell_type\""));
    }

    #[test]
    fn a_redacted_copy_that_runs_again_is_no_longer_one() {
        let metadata = r#"{"epsilab":{"redacted":{"lines":1},"other":2}}"#;
        let notebook = read(&with_metadata(metadata)).expect("valid");
        assert_eq!(notebook.as_json()["metadata"]["epsilab"], json!({ "other": 2 }));
    }

    #[test]
    fn only_tagged_cells_may_fail() {
        let text = r#"{"nbformat":4,"cells":[
            {"cell_type":"code","source":"1","metadata":{"tags":["raises-exception"]}},
            {"cell_type":"code","source":"1","metadata":{"tags":"raises-exception"}}]}"#;
        let notebook = read(text).expect("valid");
        assert!(notebook.may_fail(0) && !notebook.may_fail(1) && !notebook.may_fail(7));
    }
}
