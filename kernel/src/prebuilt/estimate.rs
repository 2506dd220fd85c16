//! Estimated time of a build of the library for cells, from the time that cargo took on this
//! machine.

use std::path::Path;
use std::time::SystemTime;

use super::build_env::{BuildEnv, collect_sources};
use crate::folder::entries;

/// Estimated seconds where not even Burn is compiled: after an installation from packages.
const FROM_NOTHING: f64 = 420.0;
/// Estimated seconds where the time of the library is not known.
const UNKNOWN: f64 = 60.0;
/// Time of linking the library and of copying the sources for rust-analyzer, in units of the time
/// that the library was compiled in.
const LINKING: f64 = 0.15;

/// Returns the expected seconds of a build.
pub fn seconds(env: &BuildEnv) -> f64 {
    if !env.is_burn_compiled() {
        return FROM_NOTHING;
    }
    let Some((start, seconds)) = env.artifact_dirs().iter().find_map(|folder| newest(folder))
    else {
        return UNKNOWN;
    };
    let linking = (LINKING * seconds).max(5.0);
    let is_changed = newest_source(&env.library_dir).is_some_and(|changed| changed > start);
    if is_changed { seconds + linking } else { linking }
}

/// Returns the time at which cargo last started to compile the library, and the seconds that it
/// took: it writes a file when it starts the compiler, and the compiler writes the library at its
/// end.
fn newest(folder: &Path) -> Option<(SystemTime, f64)> {
    let time = |path: &Path| path.metadata().and_then(|about| about.modified()).ok();
    let libraries = entries(&folder.join("deps")).filter_map(|library| {
        let hash =
            library.file_name()?.to_str()?.strip_prefix("libepsilab-")?.strip_suffix(".rlib")?;
        let unit = folder.join(".fingerprint").join(format!("epsilab-{hash}"));
        let (end, start) = (time(&library)?, time(&unit.join("invoked.timestamp"))?);
        Some((start, end.duration_since(start).ok()?.as_secs_f64()))
    });
    libraries.max_by_key(|(start, _)| *start)
}

fn newest_source(library: &Path) -> Option<SystemTime> {
    let mut files = vec![library.join("Cargo.toml"), library.join("accounting/Cargo.toml")];
    collect_sources(&library.join("src"), &mut files).ok()?;
    // Packages that cargo unpacked have no such folder.
    let _ = collect_sources(&library.join("accounting/src"), &mut files);
    files.iter().filter_map(|file| file.metadata().ok()?.modified().ok()).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;

    #[test]
    fn a_changed_library_takes_its_own_time_more() {
        let folder = tempfile::tempdir().expect("temp");
        let (target, source) = (folder.path().join("target"), folder.path().join("clone"));
        let mut env = BuildEnv::find().expect("this build");
        env.target_dir = target.clone();
        env.library_dir = source.clone();
        env.triple = None;
        env.profile = "dev".into();
        assert_eq!(seconds(&env), FROM_NOTHING);

        let now = SystemTime::now();
        let write = |path: &Path, at: SystemTime| {
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, "").expect("written");
            fs::File::options()
                .append(true)
                .open(path)
                .expect("opened")
                .set_modified(at)
                .expect("set");
        };
        let after = |seconds: u64| now + Duration::from_secs(seconds);
        write(&target.join("debug/deps/libburn-1.rlib"), now);
        assert_eq!(seconds(&env), UNKNOWN);
        // An older library of other features took another time.
        for (name, start, end) in [("old", 0, 900), ("new", 1000, 1100)] {
            let unit = format!("debug/.fingerprint/epsilab-{name}/invoked.timestamp");
            write(&target.join(unit), after(start));
            write(&target.join(format!("debug/deps/libepsilab-{name}.rlib")), after(end));
        }
        write(&source.join("src/lib.rs"), after(1050));
        assert_eq!(seconds(&env), 100.0 + 15.0);
        write(&source.join("src/lib.rs"), after(999));
        assert_eq!(seconds(&env), 15.0);
        write(&source.join("accounting/src/lib.rs"), after(1050));
        assert_eq!(seconds(&env), 100.0 + 15.0);
    }
}
