//! Collection of the outputs of cells from the messages of the kernel, in the form of nbformat.

use jupyter_zmq_client::{
    ClearOutput, DisplayData, ErrorOutput, JupyterMessageContent, Payload, Stdio,
};
use serde_json::{Map, Value, json};

use super::notebook::{stored, string_to_multiline};
use crate::pattern::{Pattern, pattern};

/// Outputs of all cells. An update may change the output of an earlier cell.
#[derive(Default)]
pub struct OutputCollector {
    cells: Vec<CellOutputs>,
}

#[derive(Default)]
struct CellOutputs {
    outputs: Vec<CellOutput>,
    /// Whether to clear the outputs when the next one comes, after `clear_output(wait)`.
    clear_next: bool,
    execution_count: Option<u64>,
    error: Option<ErrorOutput>,
}

enum CellOutput {
    Stream { name: &'static str, text: String },
    Value { json: Value, display: Option<String> },
}

impl OutputCollector {
    /// Creates empty outputs for `cells` cells.
    pub fn new(cells: usize) -> Self {
        Self { cells: (0..cells).map(|_| CellOutputs::default()).collect() }
    }

    /// Adds a message that the kernel published for `cell`. Messages without output are ignored.
    pub fn handle_message(&mut self, cell: usize, message: &JupyterMessageContent) {
        match message {
            JupyterMessageContent::StreamContent(stream) => {
                let name = match stream.name {
                    Stdio::Stdout => "stdout",
                    Stdio::Stderr => "stderr",
                };
                self.push_stream(cell, name, &stream.text);
            }
            JupyterMessageContent::DisplayData(display) => {
                let id = display.transient.as_ref().and_then(|t| t.display_id.clone());
                let json = json!({"output_type": "display_data", "data": stored(&display.data),
                    "metadata": display.metadata});
                self.push_value(cell, json, id);
            }
            JupyterMessageContent::UpdateDisplayData(update) => {
                if let Some(id) = &update.transient.display_id {
                    self.update_display(id, &stored(&update.data), &update.metadata);
                }
            }
            JupyterMessageContent::ExecuteResult(result) => {
                let id = result.transient.as_ref().and_then(|t| t.display_id.clone());
                let json = json!({"output_type": "execute_result", "data": stored(&result.data),
                    "metadata": result.metadata, "execution_count": result.execution_count.value()});
                self.push_value(cell, json, id);
            }
            JupyterMessageContent::ErrorOutput(error) => {
                // The first one is the failure of the cell.
                if let Some(cell) = self.cells.get_mut(cell) {
                    cell.error.get_or_insert_with(|| error.clone());
                }
                let json = json!({"output_type": "error", "ename": error.ename,
                    "evalue": error.evalue, "traceback": error.traceback});
                self.push_value(cell, json, None);
            }
            JupyterMessageContent::ClearOutput(ClearOutput { wait }) => {
                if let Some(cell) = self.cells.get_mut(cell) {
                    cell.clear_next = *wait;
                    if !wait {
                        cell.outputs.clear();
                    }
                }
            }
            _ => {}
        }
    }

    /// Adds a text for a pager as an output, as JupyterLab shows it.
    pub fn handle_page(&mut self, cell: usize, payload: &Payload) {
        if let Payload::Page { data, .. } = payload {
            self.handle_message(cell, &DisplayData::new(data.clone()).into());
        }
    }

    /// Sets the execution count of a cell.
    pub fn set_count(&mut self, cell: usize, count: u64) {
        if let Some(cell) = self.cells.get_mut(cell) {
            cell.execution_count = Some(count);
        }
    }

    /// Returns the failure of a cell, if it failed.
    pub fn error(&self, cell: usize) -> Option<&ErrorOutput> {
        self.cells.get(cell)?.error.as_ref()
    }

    /// Returns execution count and outputs of a cell in the form of nbformat.
    pub fn for_cell(&self, cell: usize) -> (Option<u64>, Vec<Value>) {
        let Some(cell) = self.cells.get(cell) else { return (None, Vec::new()) };
        let shown = cell.outputs.iter().map(|shown| match shown {
            CellOutput::Stream { name, text } => json!({"output_type": "stream", "name": name,
                "text": string_to_multiline(&apply_carriage_returns(text))}),
            CellOutput::Value { json, .. } => json.clone(),
        });
        (cell.execution_count, shown.collect())
    }

    fn push_stream(&mut self, cell: usize, name: &'static str, text: &str) {
        let Some(cell) = self.cell_for_output(cell) else { return };
        match cell.outputs.last_mut() {
            Some(CellOutput::Stream { name: last, text: shown }) if *last == name => {
                shown.push_str(text);
            }
            _ => cell.outputs.push(CellOutput::Stream { name, text: text.to_owned() }),
        }
    }

    fn push_value(&mut self, cell: usize, json: Value, display: Option<String>) {
        if let Some(cell) = self.cell_for_output(cell) {
            cell.outputs.push(CellOutput::Value { json, display });
        }
    }

    fn cell_for_output(&mut self, cell: usize) -> Option<&mut CellOutputs> {
        let cell = self.cells.get_mut(cell)?;
        if std::mem::take(&mut cell.clear_next) {
            cell.outputs.clear();
        }
        Some(cell)
    }

    /// Replaces every output with this display id, in all cells.
    fn update_display(&mut self, id: &str, data: &Value, metadata: &Map<String, Value>) {
        for shown in self.cells.iter_mut().flat_map(|cell| &mut cell.outputs) {
            if let CellOutput::Value { json, display: Some(display) } = shown
                && display == id
            {
                json["data"] = data.clone();
                json["metadata"] = Value::Object(metadata.clone());
            }
        }
    }
}

/// Applies carriage returns as a terminal does: the text after one replaces its line.
fn apply_carriage_returns(text: &str) -> String {
    static AT_THE_END: Pattern = Pattern::new(|| pattern(r"(?m)\r+$"));
    static OVERWRITTEN: Pattern = Pattern::new(|| pattern(r"(?m)^.*\r"));
    OVERWRITTEN.replace_all(&AT_THE_END.replace_all(text, ""), "").into_owned()
}

#[cfg(test)]
mod tests {
    use jupyter_zmq_client::{
        DisplayData, ExecuteResult, ExecutionCount, Media, MediaType, StreamContent, Transient,
        UpdateDisplayData,
    };

    use super::*;

    fn plain(text: &str) -> Media {
        Media::new(vec![MediaType::Plain(text.into())])
    }

    fn display(text: &str, id: &str) -> JupyterMessageContent {
        let transient = Some(Transient { display_id: Some(id.into()) });
        DisplayData { data: plain(text), metadata: Map::new(), transient }.into()
    }

    #[test]
    fn neighbouring_streams_of_one_name_are_merged() {
        let mut outputs = OutputCollector::new(1);
        for (name, text) in [(true, "a\n"), (true, "b"), (false, "c\n"), (true, "d\n")] {
            let stream =
                if name { StreamContent::stdout(text) } else { StreamContent::stderr(text) };
            outputs.handle_message(0, &stream.into());
        }
        let (_, shown) = outputs.for_cell(0);
        assert_eq!(shown.len(), 3);
        assert_eq!(shown[0]["text"], json!(["a\n", "b"]));
        assert_eq!(shown[1]["name"], "stderr");
    }

    #[test]
    fn an_update_replaces_the_output_also_of_an_earlier_cell() {
        let mut outputs = OutputCollector::new(2);
        outputs.handle_message(0, &display("old", "x"));
        outputs.handle_message(0, &display("other", "y"));
        outputs.handle_message(1, &UpdateDisplayData::new(plain("new"), "x").into());
        let (_, shown) = outputs.for_cell(0);
        assert_eq!(shown[0]["data"]["text/plain"], json!(["new"]));
        assert_eq!(shown[0]["output_type"], "display_data");
        assert_eq!(shown[1]["data"]["text/plain"], json!(["other"]));
        assert!(outputs.for_cell(1).1.is_empty());
        assert!(shown[0].get("transient").is_none());
    }

    #[test]
    fn an_update_brings_its_own_metadata() {
        let stated = |name: &str| {
            let ours = json!({ "coverage": name, "covered_part": name });
            Map::from_iter([("epsilab".to_owned(), ours)])
        };
        let mut outputs = OutputCollector::new(1);
        let transient = Transient { display_id: Some("x".into()) };
        let (data, metadata) = (plain("old"), stated("covered"));
        let shown = DisplayData { data, metadata, transient: Some(transient.clone()) };
        outputs.handle_message(0, &shown.into());
        let (data, metadata) = (plain("new"), stated("not_covered"));
        outputs.handle_message(0, &UpdateDisplayData { data, metadata, transient }.into());
        let ours = json!({ "coverage": "not_covered", "covered_part": "not_covered" });
        assert_eq!(outputs.for_cell(0).1[0]["metadata"], json!({ "epsilab": ours }));
        // One that states nothing does not keep the statement about what it replaces.
        outputs.handle_message(0, &UpdateDisplayData::new(plain("newer"), "x").into());
        assert_eq!(outputs.for_cell(0).1[0]["metadata"], json!({}));
    }

    #[test]
    fn clearing_happens_at_once_or_with_the_next_output() {
        let mut outputs = OutputCollector::new(1);
        outputs.handle_message(0, &display("a", "x"));
        outputs.handle_message(0, &ClearOutput { wait: true }.into());
        assert_eq!(outputs.for_cell(0).1.len(), 1);
        outputs.handle_message(0, &StreamContent::stdout("b").into());
        assert_eq!(outputs.for_cell(0).1.len(), 1);
        outputs.handle_message(0, &ClearOutput { wait: false }.into());
        assert!(outputs.for_cell(0).1.is_empty());
    }

    #[test]
    fn results_and_errors_have_the_form_of_nbformat() {
        let mut outputs = OutputCollector::new(1);
        outputs.handle_message(0, &ExecuteResult::new(ExecutionCount::new(3), plain("2")).into());
        let error = ErrorOutput {
            ename: "E0425".into(),
            evalue: "no x".into(),
            traceback: vec!["E0425: no x".into()],
        };
        outputs.handle_message(0, &error.into());
        outputs.set_count(0, 3);
        let (count, shown) = outputs.for_cell(0);
        assert_eq!(count, Some(3));
        assert_eq!(shown[0]["execution_count"], 3);
        assert_eq!(shown[1]["ename"], "E0425");
        assert_eq!(outputs.error(0).map(|f| f.evalue.as_str()), Some("no x"));
    }

    #[test]
    fn a_carriage_return_overwrites_its_line() {
        assert_eq!(apply_carriage_returns("1 %\r50 %\r100 %\ndone\r\n"), "100 %\ndone\n");
        assert_eq!(apply_carriage_returns("a\rb\r"), "b");
    }

    #[test]
    fn messages_for_cells_that_do_not_exist_are_harmless() {
        let mut outputs = OutputCollector::new(1);
        outputs.handle_message(5, &display("a", "x"));
        assert!(outputs.for_cell(5).1.is_empty() && outputs.for_cell(0).1.is_empty());
    }
}
