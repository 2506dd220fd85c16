//! The state of a prebuilt lab: whether cells can be linked to it.

use std::path::Path;

use super::manifest::{self, ChangedFile, CheckDepth};
use super::stamp::Stamp;

/// State of a lab.
#[derive(Clone, Debug, PartialEq)]
pub enum LibraryState {
    /// No lab was built from this clone.
    Missing,
    /// The newest lab was built by another toolchain.
    OtherToolchain,
    /// The newest lab was built from other sources.
    OtherSources,
    /// The lab was changed after the build.
    Damaged {
        /// Description of the changes.
        why: String,
        /// Whether the start of a kernel notices the changes and builds the lab again.
        at_start: bool,
    },
    /// Cells can link the lab.
    Ready,
}

/// Returns the state of the lab in this folder, or `None` if no build was finished there.
pub fn check_state(dir: &Path, depth: CheckDepth) -> Option<LibraryState> {
    if !dir.is_dir() {
        return None;
    }
    let why = match (find_damage(dir, CheckDepth::Quick), depth) {
        (Some(why), _) => return Some(LibraryState::Damaged { why, at_start: true }),
        (None, CheckDepth::Quick) => None,
        (None, CheckDepth::Full) => find_damage(dir, CheckDepth::Full),
    };
    Some(why.map_or(LibraryState::Ready, |why| LibraryState::Damaged { why, at_start: false }))
}

/// Returns all files of the lab in this folder that are known to differ from the built ones.
pub fn changed_files(dir: &Path) -> Vec<ChangedFile> {
    let stamp = Stamp::read(dir);
    stamp
        .and_then(|stamp| manifest::find_changed(dir, &stamp, CheckDepth::Full).ok())
        .unwrap_or_default()
}

fn find_damage(dir: &Path, depth: CheckDepth) -> Option<String> {
    // A folder gets its name when it is complete, so the stamp was there.
    let Some(stamp) = Stamp::read(dir) else {
        let path = dir.join(Stamp::FILE);
        return Some(format!("{} is missing or can't be read", path.display()));
    };
    let changed = match manifest::find_changed(dir, &stamp, depth) {
        Ok(changed) => changed,
        Err(error) => return Some(error.to_string()),
    };
    let first = dir.join(&changed.first()?.path);
    let how = if first.exists() { "differs from the file that was built" } else { "is missing" };
    let more = match changed.len() - 1 {
        0 => String::new(),
        n => format!(", and so {} {n} more", if n == 1 { "is" } else { "are" }),
    };
    Some(format!("{} {how}{more}", first.display()))
}

#[cfg(test)]
pub mod tests {
    use std::path::PathBuf;
    use std::time::{Duration, SystemTime};

    use super::*;

    /// Creates a small lab in a folder of this name.
    pub fn lab(labs: &Path, name: &str) -> PathBuf {
        let dir = labs.join(name);
        let files = [
            ("lib/liblab.so", name),
            ("lib/libburn.rmeta", "metadata"),
            ("shim/Cargo.toml", "[package]"),
            ("shim/src/lib.rs", "extern crate epsilab_lab;"),
            ("rust-src/std/src/lib.rs", "pub mod io;"),
        ];
        for (path, text) in files {
            std::fs::create_dir_all(dir.join(path).parent().expect("a folder")).expect("made");
            std::fs::write(dir.join(path), text).expect("written");
        }
        let stamp = Stamp {
            library: "liblab.so".into(),
            files_sha256: manifest::write_manifest(&dir).expect("listed"),
            seconds: 1.0,
            ..Stamp::default()
        };
        stamp.write(&dir).expect("written");
        assert_eq!(Stamp::read(&dir), Some(stamp));
        dir
    }

    /// Changes one bit of a file; with `hidden`, without a trace in its size and time.
    fn flip(file: &Path, hidden: bool) {
        let mut bytes = std::fs::read(file).expect("read");
        bytes[3] ^= 1;
        let before = file.metadata().expect("there").modified().expect("a time");
        std::fs::write(file, bytes).expect("written");
        let time = if hidden { before } else { SystemTime::now() + Duration::from_secs(1) };
        let file = std::fs::File::options().append(true).open(file).expect("opened");
        file.set_modified(time).expect("set");
    }

    fn is_damaged(dir: &Path, depth: CheckDepth, file: &str, noticed_at_start: bool) {
        match check_state(dir, depth) {
            Some(LibraryState::Damaged { why, at_start }) => {
                assert!(why.contains(file), "{why}");
                assert_eq!(at_start, noticed_at_start, "{why}");
            }
            other => panic!("{file}: {other:?}"),
        }
    }

    #[test]
    fn a_lab_with_any_changed_or_missing_file_is_not_ready() {
        let labs = tempfile::tempdir().expect("temp");
        for (i, file) in
            ["lib/liblab.so", "lib/libburn.rmeta", "shim/src/lib.rs", "rust-src/std/src/lib.rs"]
                .into_iter()
                .enumerate()
        {
            let new = |what: &str| lab(labs.path(), &format!("{what}{i}"));
            let dir = new("changed");
            assert_eq!(check_state(&dir, CheckDepth::Quick), Some(LibraryState::Ready));
            assert_eq!(check_state(&dir, CheckDepth::Full), Some(LibraryState::Ready));
            flip(&dir.join(file), false);
            is_damaged(&dir, CheckDepth::Quick, file, true);
            let dir = new("removed");
            std::fs::remove_file(dir.join(file)).expect("removed");
            is_damaged(&dir, CheckDepth::Quick, file, true);
            let dir = new("cut");
            std::fs::File::create(dir.join(file)).expect("emptied");
            is_damaged(&dir, CheckDepth::Quick, file, true);
            // Only the dylib is read at every start.
            let dir = new("hidden");
            flip(&dir.join(file), true);
            is_damaged(&dir, CheckDepth::Full, file, file == "lib/liblab.so");
            let names: Vec<_> = changed_files(&dir).into_iter().map(|c| c.path).collect();
            assert_eq!(names, [Path::new(file)]);
        }
        assert_eq!(check_state(&labs.path().join("none"), CheckDepth::Full), None);
    }

    #[test]
    fn a_lab_whose_stamp_or_list_is_cut_short_is_damaged_and_not_missing() {
        let labs = tempfile::tempdir().expect("temp");
        for file in ["stamp.json", "files.txt"] {
            let dir = lab(labs.path(), file);
            let text = std::fs::read(dir.join(file)).expect("read");
            std::fs::write(dir.join(file), &text[..text.len() / 2]).expect("written");
            is_damaged(&dir, CheckDepth::Quick, file, true);
            std::fs::remove_file(dir.join(file)).expect("removed");
            is_damaged(&dir, CheckDepth::Quick, file, true);
        }
    }

    #[test]
    fn a_copied_lab_with_new_times_is_ready() {
        let labs = tempfile::tempdir().expect("temp");
        let dir = lab(labs.path(), "copied");
        for file in ["lib/libburn.rmeta", "shim/src/lib.rs"] {
            let file = std::fs::File::options().append(true).open(dir.join(file)).expect("opened");
            file.set_modified(SystemTime::now() + Duration::from_secs(9)).expect("set");
        }
        assert_eq!(check_state(&dir, CheckDepth::Quick), Some(LibraryState::Ready));
    }
}
