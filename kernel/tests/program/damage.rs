//! A prebuilt lab with a changed file: `doctor` names the file, and a kernel builds the lab again.
//! The lab is a copy in a target folder of its own, where nothing can be compiled.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::common::{Client, Start, binary, isolate, scratch, turns};

#[test]
fn a_changed_file_is_named_and_makes_the_kernel_build_the_lab_again() {
    let _turn = turns(1);
    let report = doctor(&binary());
    assert_eq!(report["lab"]["intact"], true, "{}", report["lab"]);
    let built = PathBuf::from(report["lab"]["dir"].as_str().expect("a folder"));
    // Beside the lab, so that files can be linked, unless the target folder belongs to somebody
    // else; a folder deeper, or it would be a target triple.
    let folder = tempfile::tempdir_in(built.ancestors().nth(2).expect("a target"))
        .or_else(|_| tempfile::tempdir())
        .expect("temp");
    let target = folder.path().join("target");
    let program = target.join("debug/epsilab");
    fs::create_dir_all(target.join("debug")).expect("made");
    fs::copy(binary(), &program).expect("copied");
    fs::write(target.join("CACHEDIR.TAG"), "").expect("written");
    let lab = target.join("lab").join(built.file_name().expect("a name"));
    copy(&built, &lab);
    let copied = doctor(&program);
    assert_eq!(copied["lab"]["dir"].as_str().map(Path::new), Some(lab.as_path()));
    assert_eq!(copied["lab"]["intact"], true, "{}", copied["lab"]);

    // A missing file: the next start sees it.
    let metadata = fs::read_dir(lab.join("lib")).expect("read").flatten().map(|file| file.path());
    let mut metadata = metadata.filter(|path| path.extension().is_some_and(|e| e == "rmeta"));
    let removed = metadata.next().expect("metadata");
    let aside = target.join("aside");
    fs::rename(&removed, &aside).expect("moved");
    let check = doctor(&program)["lab"].clone();
    assert_eq!(check["intact"], false);
    let what = check["what"].as_str().unwrap_or_default().to_owned();
    assert!(what.contains(removed.to_str().expect("UTF-8")) && what.contains("missing"), "{what}");
    assert!(
        check["todo"].as_str().unwrap_or_default().contains("built when a notebook"),
        "{check}"
    );
    fs::rename(&aside, &removed).expect("moved back");

    // A changed byte with the old size and time: only reading all files shows it.
    let root = lab.join("shim/src/lib.rs");
    let text = fs::read_to_string(&root).expect("read");
    let time = root.metadata().expect("there").modified().expect("a time");
    fs::write(&root, text.replacen("extern", "extern!", 1).replacen("_lab;", "_lab", 1))
        .expect("written");
    fs::File::options().append(true).open(&root).expect("opened").set_modified(time).expect("set");
    assert_eq!(root.metadata().expect("there").len(), text.len() as u64);
    let check = doctor(&program)["lab"].clone();
    assert_eq!(
        (check["status"].as_str(), check["intact"].as_bool()),
        (Some("action"), Some(false))
    );
    assert!(check["todo"].as_str().unwrap_or_default().contains("remove the folder"), "{check}");

    // Cells can't be linked to it, so the kernel reads all files and builds the lab again. That
    // fails at once without the packages.
    let empty = target.join("cargo");
    fs::create_dir(&empty).expect("made");
    let env =
        vec![("CARGO_HOME", empty.display().to_string()), ("CARGO_NET_OFFLINE", "true".to_owned())];
    // As if another process were building: the kernel answers while it waits.
    let building = fs::File::create(target.join("lab/.lock")).expect("made");
    building.lock().expect("locked");
    let mut kernel = Client::start_beside(Start { env, binary: Some(program), ..Start::default() });
    let id = kernel.send("1");
    kernel.listen(&id, |_, content| {
        content["text"].as_str().is_some_and(|text| text.contains("waiting for it"))
    });
    assert_eq!(kernel.ask("kernel_info_request", json!({}))["status"], "ok");
    drop(building);
    let (name, value, traceback) = kernel.finish(&id).error();
    assert_eq!(
        (name.as_str(), value.as_str()),
        ("KernelError", "cells can't be linked to the lab")
    );
    assert!(
        traceback.contains("cargo metadata failed") && traceback.contains("what to do:"),
        "{traceback}"
    );
    kernel.shut_down();
}

fn doctor(program: &Path) -> Value {
    let mut command = Command::new(program);
    isolate(&mut command, scratch());
    command.args(["doctor", "--json"]);
    let out = command.output().expect("the program starts");
    serde_json::from_slice(&out.stdout).expect("JSON")
}

/// Metadata and libraries as links, what the test changes as copies.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    let mut entries: Vec<_> = fs::read_dir(from).expect("read").flatten().collect();
    // The stamp is the newest file.
    entries.sort_by_key(|entry| entry.file_name() == "stamp.json");
    for entry in entries {
        let to = to.join(entry.file_name());
        match entry.path() {
            path if path.is_dir() => copy(&path, &to),
            path if from.ends_with("lib") && fs::hard_link(&path, &to).is_ok() => {}
            path => drop(fs::copy(path, to).expect("copied")),
        }
    }
}
