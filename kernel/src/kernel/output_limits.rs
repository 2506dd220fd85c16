//! Limits on the output that one cell sends to the client. A notebook with 100 MB of text can
//! hardly be opened again. What is cut is kept in a file, and the cell says so.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Map, Value, json};

/// Maximum bytes of printed text.
const MAX_TEXT_BYTES: usize = 1 << 20;
/// Maximum bytes of all figures and results that the cell shows at a time.
const MAX_FIGURE_BYTES: usize = 10 << 20;
/// Maximum bytes of a file with text: a cell that prints for ever must not fill the disk.
const MAX_FILE_BYTES: usize = 1 << 30;

/// Amount of output that one cell has sent, for comparison with the limits.
pub struct OutputLimits {
    folder: PathBuf,
    text: usize,
    /// Sizes of figures in bytes by display id; an update replaces the figure that it updates.
    figures: HashMap<String, usize>,
    overflow: Option<OverflowFile>,
    files: usize,
    figure_notice_sent: bool,
}

/// File with the text beyond the limit.
struct OverflowFile {
    path: PathBuf,
    /// Open file, or the error that made it incomplete.
    file: Result<File, String>,
    written: usize,
    /// Maximum bytes of the file.
    limit: usize,
}

impl OverflowFile {
    fn create(path: PathBuf, limit: usize) -> Self {
        let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let file = folder.and_then(|()| File::create(&path)).map_err(|error| error.to_string());
        Self { path, file, written: 0, limit }
    }

    /// Writes text, and returns whether it is the first that could not be written completely.
    fn write(&mut self, text: &str) -> bool {
        let Ok(file) = &mut self.file else { return false };
        let end = text.floor_char_boundary(self.limit.saturating_sub(self.written));
        let done = file.write_all(&text.as_bytes()[..end]);
        // With what was written before an error.
        self.written = file.metadata().map_or(self.written, |about| about.len() as usize);
        let why = match done {
            Err(error) => error.to_string(),
            Ok(()) if end == text.len() => return false,
            Ok(()) => format!("a cell may keep {}", format_size(self.limit)),
        };
        self.file = Err(why);
        if self.written == 0 {
            let _ = std::fs::remove_file(&self.path);
        }
        true
    }

    /// Describes the place of the cut text, or the reason why it is lost.
    fn location_text(&self) -> String {
        let path = self.path.display();
        match &self.file {
            Ok(_) => format!("the rest is in {path}"),
            Err(why) if self.written == 0 => format!("the rest is lost ({path}: {why})"),
            Err(why) => {
                let size = format_size(self.written);
                format!("only {size} more could be kept, in {path}, and the rest is lost ({why})")
            }
        }
    }
}

impl OutputLimits {
    /// Creates the state in which nothing has been sent. `folder` is for output beyond the limits.
    pub fn new(folder: PathBuf) -> Self {
        let (figures, rest) = (HashMap::new(), None);
        Self { folder, text: 0, figures, overflow: rest, files: 0, figure_notice_sent: false }
    }

    /// Returns the messages to send in place of this one.
    pub fn apply(&mut self, kind: &str, content: Value) -> Vec<(String, Value)> {
        match kind {
            "stream" => self.limit_text(&content),
            "display_data" | "update_display_data" | "execute_result" => {
                self.limit_figure(kind, content)
            }
            _ => {
                if kind == "clear_output" {
                    // What was shown is gone. Files and what they hold stay.
                    self.text = 0;
                    self.figures.clear();
                }
                vec![(kind.to_owned(), content)]
            }
        }
    }

    fn limit_text(&mut self, content: &Value) -> Vec<(String, Value)> {
        let text = content["text"].as_str().unwrap_or_default();
        let remaining = MAX_TEXT_BYTES.saturating_sub(self.text);
        self.text = self.text.saturating_add(text.len());
        let (sent, cut) = text.split_at(line_boundary_before(text, remaining));
        let name = content["name"].as_str().unwrap_or("stdout");
        let sent = (!sent.is_empty()).then(|| stream_message(name, sent));
        let overflow = if cut.is_empty() { None } else { self.write_overflow(cut) };
        sent.into_iter().chain(overflow).collect()
    }

    /// Writes text to the file. Returns a message with its place the first time, and once if the
    /// text is not complete.
    fn write_overflow(&mut self, text: &str) -> Option<(String, Value)> {
        let is_first = self.overflow.is_none();
        if is_first {
            self.overflow = Some(OverflowFile::create(self.next_path("txt"), MAX_FILE_BYTES));
        }
        let rest = self.overflow.as_mut()?;
        let what = match (is_first, rest.write(text)) {
            (true, _) => "more than 1 MB of text",
            (false, true) => "not all of the text is kept",
            (false, false) => return None,
        };
        Some(stream_message("stderr", &format!("\n[{what}: {}]\n", rest.location_text())))
    }

    fn limit_figure(&mut self, kind: &str, content: Value) -> Vec<(String, Value)> {
        let data = content["data"].as_object().cloned().unwrap_or_default();
        let size = data.values().map(|value| value.as_str().map_or(0, str::len)).sum();
        let id = match content["transient"]["display_id"].as_str() {
            Some(id) => id.to_owned(),
            None => format!("figure {}", self.figures.len()),
        };
        let before = self.figures.insert(id.clone(), size);
        if self.figures.values().sum::<usize>() <= MAX_FIGURE_BYTES {
            return vec![(kind.to_owned(), content)];
        }
        // What the client shows stays as it was.
        match before {
            Some(size) => self.figures.insert(id, size),
            None => self.figures.remove(&id),
        };
        if kind == "update_display_data" && std::mem::replace(&mut self.figure_notice_sent, true) {
            return Vec::new();
        }
        let megabytes = size as f64 / f64::from(1 << 20);
        let kept = self.write_figure(&data);
        let notice =
            format!("[{megabytes:.1} MB more than the 10 MB of figures of a cell: {kept}]\n");
        vec![stream_message("stderr", &notice)]
    }

    /// Writes a figure to a file of its own, and returns its place in words.
    fn write_figure(&mut self, data: &Map<String, Value>) -> String {
        const KINDS: [(&str, &str); 4] = [
            ("image/svg+xml", "svg"),
            ("image/png", "png"),
            ("text/html", "html"),
            ("text/plain", "txt"),
        ];
        let found = KINDS.iter().find_map(|(kind, name)| Some((name, data.get(*kind)?.as_str()?)));
        let Some((name, text)) = found else { return "lost".into() };
        let bytes = match *name {
            "png" => BASE64_STANDARD.decode(text.trim()).unwrap_or_default(),
            _ => text.as_bytes().to_vec(),
        };
        let path = self.next_path(name);
        let done =
            std::fs::create_dir_all(&self.folder).and_then(|()| std::fs::write(&path, bytes));
        match done {
            Ok(()) => format!("saved in {}", path.display()),
            Err(error) => {
                // A part of a figure can't be shown.
                let _ = std::fs::remove_file(&path);
                format!("lost ({}: {error})", path.display())
            }
        }
    }

    fn next_path(&mut self, extension: &str) -> PathBuf {
        self.files += 1;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        self.folder.join(format!("{now}-{}.{extension}", self.files))
    }
}

fn format_size(bytes: usize) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Returns the byte offset at which to cut text to fit into `max_len` bytes: at the end of a line,
/// if one ends there.
fn line_boundary_before(text: &str, max_len: usize) -> usize {
    if text.len() <= max_len {
        return text.len();
    }
    let end = text.floor_char_boundary(max_len);
    text[..end].rfind('\n').map_or(end, |newline| newline + 1)
}

fn stream_message(name: &str, text: &str) -> (String, Value) {
    ("stream".to_owned(), json!({ "name": name, "text": text }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(messages: &[(String, Value)]) -> String {
        messages.iter().map(|(_, content)| content["text"].as_str().unwrap()).collect()
    }

    #[test]
    fn text_beyond_the_limit_goes_to_a_file_and_no_character_is_torn() {
        let dir = tempfile::tempdir().unwrap();
        let mut limits = OutputLimits::new(dir.path().join("outputs"));
        let part = "ä".repeat(300_000);
        let mut sent = String::new();
        for _ in 0..4 {
            let content = json!({ "name": "stdout", "text": part });
            sent += &text_of(&limits.apply("stream", content));
        }
        let (shown, notice) = sent.split_once("\n[").unwrap();
        assert_eq!(shown.len(), MAX_TEXT_BYTES);
        let path = notice.trim_end().trim_end_matches(']').rsplit_once(" in ").unwrap().1;
        let kept = std::fs::read_to_string(path).unwrap();
        assert_eq!(shown.to_owned() + &kept, part.repeat(4));
        assert_eq!(limits.apply("error", json!({})), [("error".to_owned(), json!({}))]);
        assert_eq!([2, 3, 4, 9].map(|room| line_boundary_before("ab\ncd\n", room)), [2, 3, 3, 6]);
    }

    #[test]
    fn an_update_replaces_its_figure_and_figures_beyond_the_limit_go_to_files() {
        let dir = tempfile::tempdir().unwrap();
        let mut limits = OutputLimits::new(dir.path().to_owned());
        let live = |bytes: usize| {
            json!({ "data": { "image/svg+xml": "x".repeat(bytes) },
                    "transient": { "display_id": "live" } })
        };
        for _ in 0..20 {
            let sent = limits.apply("update_display_data", live(1 << 20));
            assert_eq!(sent[0].0, "update_display_data");
        }
        let still = json!({ "data": { "image/svg+xml": "y".repeat(9 << 20) } });
        assert_eq!(limits.apply("display_data", still.clone())[0].0, "display_data");
        let text = text_of(&limits.apply("display_data", still));
        let path = text.trim_end().trim_end_matches(']').rsplit_once(" in ").unwrap().1;
        assert_eq!(std::fs::metadata(path).unwrap().len(), 9 << 20);
        // The live figure is updated as long as it does not grow.
        assert_eq!(limits.apply("update_display_data", live(1 << 20))[0].0, "update_display_data");
        assert_eq!(limits.apply("update_display_data", live(2 << 20))[0].0, "stream");
        assert!(limits.apply("update_display_data", live(2 << 20)).is_empty(), "said once");
    }

    #[test]
    fn text_that_cannot_be_kept_is_reported_as_lost() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let mut limits = OutputLimits::new(file);
        let content = json!({ "name": "stdout", "text": "a".repeat(MAX_TEXT_BYTES + 1) });
        assert!(text_of(&limits.apply("stream", content)).contains("the rest is lost"));
    }

    #[test]
    fn text_that_no_longer_fits_is_not_reported_as_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rest.txt");
        let mut rest = OverflowFile::create(path.clone(), 7);
        assert!(!rest.write("abcd"));
        assert_eq!(rest.location_text(), format!("the rest is in {}", path.display()));
        assert!(rest.write("efää"), "the limit is in the middle of a character");
        assert!(!rest.write("more"), "said once");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "abcdef");
        let location = rest.location_text();
        assert!(location.starts_with("only 0 kB more could be kept, in "), "{location}");
        assert_eq!([999_999, 1 << 30].map(format_size), ["999 kB", "1073.7 MB"]);
    }

    /// Checks the messages about a full disk with a device to which every write fails.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_reported_before_a_file_is_promised() {
        let mut rest = OverflowFile::create("/dev/full".into(), MAX_FILE_BYTES);
        rest.path = "/no/such/file".into();
        let mut limits = OutputLimits::new("/no/such".into());
        limits.overflow = Some(rest);
        limits.text = MAX_TEXT_BYTES;
        let more = json!({ "name": "stdout", "text": "more" });
        let text = text_of(&limits.apply("stream", more.clone()));
        assert!(text.contains("lost") && text.contains("No space left on device"), "{text}");
        assert!(limits.apply("stream", more).is_empty(), "said once");
    }
}
