//! The environment of tests: no setting of the user, and a project folder of their own.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use super::process;

/// Names the project folder.
pub const HOME: &str = "EPSILAB_HOME";
/// Settings of the tests themselves.
const KEPT: [&str; 3] = ["EPSILAB_SHARED", "EPSILAB_REQUIRE_SHARED", "EPSILAB_WRITE_DOCS"];

/// The system calls this function before `main`, where no thread reads the environment yet.
#[used]
#[cfg_attr(all(unix, not(target_vendor = "apple")), unsafe(link_section = ".init_array"))]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func,mod_init_funcs"))]
#[cfg_attr(windows, unsafe(link_section = ".CRT$XCU"))]
static BEFORE_MAIN: extern "C" fn() = prepare;

/// Forgets the settings of the user and names a project folder. It runs before any test.
///
/// A process that a test has started keeps what the test has set.
extern "C" fn prepare() {
    if process::role().is_some() {
        return;
    }
    let is_setting = |name: &OsString| {
        let name = name.to_string_lossy();
        (name.starts_with("EPSILAB_") && !KEPT.contains(&&*name)) || name == "EVCXR_IS_RUNTIME"
    };
    let settings: Vec<OsString> = env::vars_os().map(|(name, _)| name).filter(is_setting).collect();
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let home = env::temp_dir().join(format!("epsilab-tests-{}-{nanos}", std::process::id()));
    // SAFETY: no other thread runs yet, so nothing reads the environment meanwhile.
    unsafe {
        settings.iter().for_each(|name| env::remove_var(name));
        env::set_var(HOME, home);
        libc::atexit(remove_home);
    }
}

extern "C" fn remove_home() {
    let _ = fs::remove_dir_all(home_path());
}

fn home_path() -> PathBuf {
    env::var_os(HOME).expect("prepare() has named the project").into()
}

/// The project folder of this process. Tests that may meet in one project use different data.
pub fn home() -> PathBuf {
    let home = home_path();
    fs::create_dir_all(&home).expect("a project folder");
    home
}
