//! The ledger with several processes: concurrent writers, a race for a budget, a kill, a full disk.
//!
//! The processes are this test program, started again with the name of one test and a role.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use epsilab::lab::open_ledger;
use epsilab::privacy::{
    Accountant, Delta, EntryContent, Epsilon, Event, NeighbouringRelation, TightestAccountant,
};

use crate::support::{environment, process};

const DELTA: Delta = Delta(1e-5);
/// The environment variable with the ledger of a process.
const FILE: &str = "EPSILAB_TEST_FILE";
/// Exit code of a process whose plan was rejected by the budget.
const REFUSED: i32 = 17;

fn training(steps: u64) -> Event {
    Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 1.1, steps }
}

fn epsilon(events: &[Event]) -> f64 {
    let tightest = TightestAccountant::with_neighbouring(NeighbouringRelation::AddOrRemoveOne);
    tightest.epsilon(events, DELTA).expect("an epsilon").epsilon
}

/// Starts a process with a role in a test, on the ledger in `path`.
fn start(test: &str, role: &str, path: &Path) -> Child {
    process::command(test, role).env(FILE, path).spawn().expect("another process")
}

/// The role of this process, and the ledger; `None` in the process that runs the tests.
fn role() -> Option<(String, PathBuf)> {
    Some((process::role()?, std::env::var_os(FILE)?.into()))
}

/// All files and folders below `folder`, with their lengths and modification times.
fn listing(folder: &Path) -> Vec<(PathBuf, u64, std::time::SystemTime)> {
    let mut all = Vec::new();
    for path in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("it").path()) {
        let about = fs::metadata(&path).expect("about a file");
        all.push((path.clone(), about.len(), about.modified().expect("a time")));
        if about.is_dir() {
            all.extend(listing(&path));
        }
    }
    all.sort();
    all
}

fn file_in(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("abc123.jsonl")
}

/// Waits until `file` exists.
fn wait_for(file: &Path) {
    let start = Instant::now();
    while !file.exists() {
        assert!(start.elapsed() < process::LIMIT, "{} never came", file.display());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Creates a "ready" file and waits for the start signal, so that processes start together.
fn wait_for_signal(role: &str, path: &Path) {
    fs::write(path.with_extension(format!("ready-{role}")), "").expect("saying ready");
    wait_for(&path.with_extension("go"));
}

/// Gives the start signal once all roles are ready.
fn send_signal(roles: &[&str], path: &Path) {
    roles.iter().for_each(|role| wait_for(&path.with_extension(format!("ready-{role}"))));
    fs::write(path.with_extension("go"), "").expect("the signal");
}

#[test]
fn two_concurrent_processes_lose_nothing_and_leave_one_chain() {
    if let Some((role, path)) = role() {
        wait_for_signal(&role, &path);
        let ledger = open_ledger(&path).expect("the ledger");
        for i in 0..100 {
            let run = format!("{role}-{i}");
            ledger.begin_run(&run, &training(9)).expect("a plan");
            ledger.close_run(&run, &training(4)).expect("its correction");
        }
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = file_in(&folder);
    let writers = ["a", "b"].map(|role| start(this_test!(), role, &path));
    send_signal(&["a", "b"], &path);
    for writer in writers {
        assert!(process::end(writer).status.success());
    }
    // Opening verifies chain and head.
    let ledger = open_ledger(&path).expect("an unbroken ledger");
    assert_eq!(ledger.entries().expect("entries").len(), 400);
    let runs = ledger.runs().expect("runs");
    assert_eq!(runs.len(), 200);
    assert!(runs.iter().all(|(_, event)| *event == training(4)));
    // The interleaving is up to the scheduler, but the lines of each process keep their order.
    for name in ["a", "b"] {
        let run_ids = runs.iter().map(|(run, _)| run).filter(|run| run.starts_with(name));
        assert!(run_ids.eq((0..100).map(|i| format!("{name}-{i}")).collect::<Vec<_>>().iter()));
    }
    let head = fs::read_to_string(path.with_extension("head")).expect("its head");
    assert!(head.starts_with("{\"entries\":400,"), "{head}");
}

#[test]
fn only_one_of_many_processes_gets_the_rest_of_a_budget() {
    if let Some((role, path)) = role() {
        let ledger = open_ledger(&path).expect("the ledger");
        wait_for_signal(&role, &path);
        match ledger.begin_run(&role, &training(1000)) {
            Ok(()) => return,
            Err(error) if error.to_string().contains("the budget is epsilon") => {
                std::process::exit(REFUSED);
            }
            Err(error) => panic!("{error}"),
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = file_in(&folder);
    // Composing the recorded events takes far longer than the processes differ in their start.
    // Without the lock around the composition all of them would find the budget sufficient.
    let noise = |i: u32| 5.0 + f64::from(i) / 8.0;
    let step =
        |sigma| Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: sigma, steps: 1 };
    let before = Event::Composed { events: (0..64).map(|i| step(noise(i))).collect() };
    let one = epsilon(&[before.clone(), training(1000)]);
    let two = epsilon(&[before.clone(), training(1000), training(1000)]);
    assert!(two > one * 1.2, "two would not fit");
    let ledger = open_ledger(&path).expect("the ledger");
    ledger.begin_run("before", &before).expect("what is on record");
    ledger.set_budget(Epsilon(one * 1.1), DELTA).expect("a budget");
    let roles = ["a", "b", "c", "d"];
    let racers = roles.map(|role| start(this_test!(), role, &path));
    send_signal(&roles, &path);
    let ends = racers.map(|racer| process::end(racer).status.code());
    assert_eq!(ends.iter().filter(|code| **code == Some(0)).count(), 1, "{ends:?}");
    assert_eq!(ends.iter().filter(|code| **code == Some(REFUSED)).count(), 3, "{ends:?}");
    assert_eq!(ledger.events().expect("events"), [before, training(1000)]);
    let spending = ledger.budget_status().expect("a total").expect("a budget");
    assert!(!spending.is_overspent() && spending.runs == 2, "{spending}");
}

#[test]
fn a_killed_process_leaves_its_whole_plan_charged() {
    if let Some((role, path)) = role() {
        let ledger = open_ledger(&path).expect("the ledger");
        ledger.begin_run("run", &training(1000)).expect("a plan");
        wait_for_signal(&role, &path);
        ledger.close_run("run", &training(1)).expect("its correction");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = file_in(&folder);
    let mut trainer = start(this_test!(), "it", &path);
    wait_for(&path.with_extension("ready-it"));
    trainer.kill().expect("killing it");
    assert!(!trainer.wait().expect("its end").success());
    let ledger = open_ledger(&path).expect("an unbroken ledger");
    assert_eq!(ledger.events().expect("events"), [training(1000)]);
    ledger.set_budget(Epsilon(epsilon(&[training(1000)])), DELTA).expect("a budget");
    assert!(ledger.begin_run("next", &training(1000)).is_err(), "its budget is gone too");
}

/// A process that writes continuously is killed at any moment: the ledger can be read and used.
#[test]
fn a_kill_at_any_moment_leaves_a_usable_ledger() {
    if let Some((role, path)) = role() {
        let ledger = open_ledger(&path).expect("the ledger");
        let begun = ledger.entries().expect("entries").len();
        for i in begun.. {
            ledger.begin_run(&format!("{role}-{i}"), &training(1)).expect("a plan");
            fs::write(path.with_extension("said"), i.to_string()).expect("saying so");
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = file_in(&folder);
    let mut checked = 0;
    for round in 0..12_u64 {
        let _ = fs::remove_file(path.with_extension("said"));
        let mut writer = start(this_test!(), &round.to_string(), &path);
        wait_for(&path.with_extension("said"));
        std::thread::sleep(Duration::from_micros(round * 1300));
        writer.kill().expect("killing it");
        writer.wait().expect("its end");
        let acknowledged = fs::read_to_string(path.with_extension("said")).expect("what it said");
        let entries = open_ledger(&path).expect("a ledger").entries().expect("entries");
        // The file may be empty if the kill came while it was written.
        if let Ok(acknowledged) = acknowledged.parse::<usize>() {
            assert!(
                entries.len() > acknowledged,
                "entry {acknowledged} was acknowledged and is gone"
            );
            checked += 1;
        }
        assert!(entries.iter().all(|entry| matches!(entry.content, EntryContent::Planned { .. })));
    }
    assert!(checked > 0, "every kill came while the file was empty: nothing was checked");
}

/// A disk that is full in the middle of a line: the entry is rejected, the ledger stays intact.
#[cfg(unix)]
#[test]
fn a_line_that_does_not_fit_on_the_disk_is_removed_again() {
    if let Some((_, path)) = role() {
        let ledger = open_ledger(&path).expect("the ledger");
        let length = fs::metadata(&path).expect("its length").len();
        let limit = libc::rlimit { rlim_cur: length + 40, rlim_max: length + 40 };
        // SAFETY: both calls only change this process, which does nothing else.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
        }
        let error = ledger.begin_run("too long", &training(1)).expect_err("there is no room");
        assert_eq!(error.kind(), epsilab::privacy::ErrorKind::Book, "{error}");
        assert_eq!(fs::metadata(&path).expect("its length").len(), length);
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = file_in(&folder);
    let ledger = open_ledger(&path).expect("the ledger");
    ledger.begin_run("before", &training(5)).expect("a plan");
    assert!(process::end(start(this_test!(), "it", &path)).status.success());
    assert_eq!(ledger.events().expect("still whole"), [training(5)]);
    ledger.begin_run("after", &training(6)).expect("room again");
    assert_eq!(open_ledger(&path).expect("a ledger").events().expect("events").len(), 2);
}

/// A project without write permission can be inspected and is left unchanged.
#[cfg(unix)]
#[test]
fn a_read_only_project_can_be_inspected() {
    use epsilab::prelude::*;
    use std::os::unix::fs::PermissionsExt;
    if let Some(role) = process::role() {
        let home = environment::home();
        let data = data::glyphs_with(200, 20, 5).expect("glyphs");
        let model = models::linear(&data).seed(1).build().expect("a model");
        let settings = || DpSgd::new().target(Epsilon(4.0), DELTA).batch_size(20).steps(2);
        let grid = Grid::new(DpSsgd::new().batch_size(20).steps(2)).epsilon([4.0]);
        let build = |seed| models::linear(&data).seed(seed).build();
        let run_grid =
            || grid.run_with_observer(&build, &data, &mut epsilab::grid::NoopGridObserver);
        if role == "make" {
            settings().train(&model, &data).expect("a run");
            run_grid().expect("a grid");
            return;
        }
        // The superuser may write everywhere, whatever the mode of a folder.
        // SAFETY: this process does nothing else.
        if unsafe { libc::geteuid() == 0 && libc::setuid(65_534) != 0 } {
            println!("superuser rights cannot be dropped here: only changes are checked");
        }
        if !home.join("ledger").exists() {
            println!("skipped: the temporary folder belongs to the superuser");
            return;
        }
        let view = lab::ledger().expect("the ledger");
        assert!(view.epsilon(data.origin()) > 4.0, "{view}");
        assert_eq!(lab::remaining(&data).expect("what is spent").runs(), 2);
        settings().steps(3).preview(&data).expect("a preview");
        assert!(settings().train(&model, &data).expect("the run").is_restored());
        assert!(run_grid().expect("the grid").cells()[0].runs[0].restored);
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let test = this_test!();
    let run_role = |role: &str| {
        process::run(process::command(test, role).env(environment::HOME, folder.path()));
    };
    run_role("make");
    let modes = |file: u32, folders: u32| {
        let mode = |path: &Path| if path.is_dir() { folders } else { file };
        let set = |path: &Path| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode(path))).expect("a mode");
        };
        listing(folder.path()).iter().for_each(|(path, ..)| set(path));
        set(folder.path());
    };
    modes(0o444, 0o555);
    let before = listing(folder.path());
    let inspection = std::panic::catch_unwind(|| run_role("inspect"));
    let after = listing(folder.path());
    modes(0o644, 0o755);
    inspection.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    assert_eq!(after, before, "inspecting changed something");
    assert!(before.len() > 10, "{before:?}");
}
