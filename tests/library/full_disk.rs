//! Files that are replaced while the disk is full: the old file stays, and the error says so.

use std::fs;
use std::path::Path;

use epsilab::prelude::*;

use crate::support::{environment, process};

/// Saves a file of each kind, and returns its name and the result.
fn save_each(folder: &Path) -> Vec<(&'static str, epsilab::Result<()>)> {
    let data = data::glyphs_with(200, 20, 5).expect("glyphs");
    let model = models::linear(&data).seed(1).build().expect("a model");
    let mask = RandomMask::keep(0.5).seed(1).mask(&model).expect("a mask");
    let plan = DpSgd::new().noise_multiplier(1.0).batch_size(20).steps(2).plan(&data);
    let figure = figures::examples(&data, 4).expect("a figure");
    let at = |name: &str| folder.join(name);
    vec![
        ("model.safetensors", model.save(at("model.safetensors"))),
        ("mask.safetensors", mask.save(at("mask.safetensors"))),
        ("plan.json", plan.expect("a plan").save(at("plan.json"))),
        ("figure.svg", figure.save(at("figure.svg"))),
        ("ledger.json", lab::ledger().and_then(|ledger| ledger.export(at("ledger.json")))),
    ]
}

#[test]
fn a_full_disk_leaves_the_old_files_and_is_reported() {
    if process::role().is_some() {
        let folder = environment::home().join("out");
        let before = content(&folder);
        let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: both calls only change this process, which does nothing else.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
        }
        for (name, result) in save_each(&folder) {
            let error = result.expect_err(name);
            assert_eq!(error.kind(), epsilab::ErrorKind::Io, "{name}: {error}");
            assert!(error.advice().contains("free space"), "{name}: {error}");
        }
        assert!(content(&folder) == before, "a file was changed, or something is left");
        return;
    }
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join("out");
    for (name, result) in save_each(&folder) {
        result.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let full = process::command(this_test!(), "full").env("EPSILAB_HOME", home.path()).spawn();
    assert!(process::end(full.expect("another process")).status.success());
}

/// Names and bytes of the files in a folder.
fn content(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let files = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("it").path());
    let mut all: Vec<_> =
        files.map(|path| (path.clone(), fs::read(path).expect("a file"))).collect();
    all.sort();
    all
}

/// A link still leads to the file that is replaced, and its mode stays.
#[test]
fn a_link_and_the_mode_of_a_file_stay() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    fs::write(&file, "old").expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("a mode");
    std::os::unix::fs::symlink("file", &link).expect("a link");
    epsilab::file::write(&link, "new").expect("written");
    assert!(fs::symlink_metadata(&link).expect("it").is_symlink());
    assert_eq!(fs::read_to_string(&file).expect("it"), "new");
    assert_eq!(fs::metadata(&file).expect("it").permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read_dir(folder.path()).expect("it").count(), 2);
}

#[test]
fn device_files_are_written_in_place() {
    let error = epsilab::file::write("/dev/full", "text").expect_err("it is full");
    assert!(error.advice().contains("free some space"), "{error}");
    epsilab::file::write("/dev/null", "text").expect("it takes everything");
}

#[test]
fn a_write_protected_file_is_not_replaced() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "kept").expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).expect("a mode");
    let error = epsilab::file::write(&file, "new").expect_err("it is protected");
    assert!(error.to_string().contains("write-protected"), "{error}");
    assert_eq!(fs::read_to_string(&file).expect("it"), "kept");
    assert_eq!(fs::read_dir(folder.path()).expect("it").count(), 1);
}
