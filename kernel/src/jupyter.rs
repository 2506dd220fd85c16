//! Launcher of JupyterLab on the notebooks with this kernel. Environments of the user are not
//! changed.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;
use epsilab::{Error, ErrorKind, Result, program};

use crate::kernelspec::{self, KernelKind};
use crate::prebuilt::{self, Origin};
use crate::run::notebook::KERNEL_NAME;
use crate::{notebooks, programs, root};

/// Package to install if no JupyterLab is found.
const JUPYTERLAB_REQUIREMENT: &str = "jupyterlab==4.6.6";

/// Command that runs a notebook without JupyterLab.
const A_NOTEBOOK: &str = "run notebooks/NAME.ipynb";

/// Options for opening JupyterLab.
#[derive(Args, Debug)]
pub struct JupyterArgs {
    /// Start the server without opening a browser (also: EPSILAB_NO_BROWSER=1).
    #[arg(long)]
    pub no_browser: bool,
    /// Arguments for JupyterLab, after `--`.
    #[arg(last = true, value_name = "ARGS")]
    pub jupyter_args: Vec<String>,
}

/// Returns the folder for our own environment: in cargo's target folder, else in the user's cache.
pub fn environment_dir() -> Option<PathBuf> {
    match prebuilt::target_dir() {
        Some(target) => Some(target.join("lab-jupyter")),
        None => Some(dirs::cache_dir()?.join("epsilab/lab-jupyter")),
    }
}

/// Returns the JupyterLab on the PATH, if it can be run (a pyenv shim may not).
pub fn find_on_path() -> Option<PathBuf> {
    programs::find_on_path("jupyter-lab")
        .filter(|lab| programs::capture_stdout(lab, &["--version"]).is_some())
}

/// Returns the JupyterLab in our own environment, if it is complete.
pub fn find_own() -> Option<PathBuf> {
    let home = environment_dir()?;
    let ready = std::fs::read_to_string(home.join("ready")).ok()?;
    // An update of Python can break the environment.
    Some(home.join("venv/bin/jupyter-lab")).filter(|lab| {
        ready == JUPYTERLAB_REQUIREMENT && programs::capture_stdout(lab, &["--version"]).is_some()
    })
}

/// Opens JupyterLab, which replaces this process. Returns only if that fails.
///
/// # Errors
/// Python is missing, the user is root and JupyterLab refuses that, the lab can't be built, or
/// JupyterLab can't be installed or started.
pub fn open(args: &JupyterArgs) -> Result<ExitCode> {
    let home = environment_dir().ok_or_else(|| {
        Error::new(ErrorKind::Notebook, "no cache folder", "the kernel is registered there")
            .fix("set HOME")
    })?;
    root::check(args, &prefixes(&home))?;
    let (lab, data) = match find_on_path() {
        Some(lab) => {
            eprintln!("JupyterLab found: {}", lab.display());
            (lab, home.join("share/jupyter"))
        }
        None => {
            let lab = find_own().map_or_else(|| set_up_locked(&home), Ok)?;
            eprintln!("JupyterLab in its own environment: {}", lab.display());
            (lab, home.join("venv/share/jupyter"))
        }
    };
    let prebuilt = prebuilt::ensure_built(&mut prebuilt::terminal_progress())?;
    let spec = kernelspec::write_spec(
        &data.join("kernels"),
        KERNEL_NAME,
        KernelKind::Lab,
        &prebuilt.kernelspec_env,
    )?;
    eprintln!("kernel registered for this JupyterLab only: {}", spec.display());
    let notebooks = notebooks_dir()?;
    eprintln!("opening {} (Ctrl-C twice ends JupyterLab)", notebooks.display());

    let mut command = Command::new(&lab);
    command.arg(&notebooks).env("JUPYTER_PATH", jupyter_path_with(&data)?);
    if args.no_browser || std::env::var_os("EPSILAB_NO_BROWSER").is_some_and(|v| !v.is_empty()) {
        command.arg("--no-browser");
    }
    command.args(&args.jupyter_args);
    // JupyterLab handles Ctrl-C itself.
    Err(programs::replace_process(command))
}

/// Returns the folders in which the JupyterLab to be opened may be installed.
fn prefixes(home: &Path) -> Vec<PathBuf> {
    let found = programs::find_on_path("jupyter-lab");
    let on_path = found.as_deref().and_then(|lab| lab.parent()?.parent());
    on_path.map(Path::to_owned).into_iter().chain([home.join("venv")]).collect()
}

/// Installs under a lock, so that a second program waits for the first.
fn set_up_locked(home: &Path) -> Result<PathBuf> {
    let locking = |e: std::io::Error| Error::io(format!("locking {}", home.display()), &e);
    std::fs::create_dir_all(home).map_err(locking)?;
    let lock = std::fs::File::create(home.join(".lock")).map_err(locking)?;
    if lock.try_lock().is_err() {
        eprintln!("another `{}` is setting JupyterLab up: waiting for it", program::name());
        lock.lock().map_err(locking)?;
    }
    find_own().map_or_else(|| set_up(home), Ok)
}

/// Creates a virtual environment with JupyterLab. An incomplete one is replaced.
fn set_up(home: &Path) -> Result<PathBuf> {
    let venv = home.join("venv");
    let python = programs::find_python().ok_or_else(|| {
        Error::new(
            ErrorKind::Notebook,
            "Python 3 was not found",
            "JupyterLab is a Python program (notebooks run without it)",
        )
        .fix(format!(
            "install Python 3 (python.org, `apt install python3-venv`, `brew install python`), or \
             run a notebook without Python: `{}`",
            program::command(A_NOTEBOOK)
        ))
    })?;
    if venv.exists() {
        std::fs::remove_dir_all(&venv)
            .map_err(|e| Error::io(format!("clearing {}", venv.display()), &e))?;
    }
    eprintln!("no JupyterLab found: setting one up in {} (once)", venv.display());
    eprintln!("1/2 virtual environment with {} (a few seconds)", python.display());
    let mut make = Command::new(&python);
    make.args(["-m", "venv"]).arg(&venv);
    run_setup_step(make, "creating the virtual environment", {
        "on Debian and Ubuntu: `apt install python3-venv`; then try again"
    })?;
    eprintln!("2/2 {JUPYTERLAB_REQUIREMENT} from PyPI (about a minute, about 50 MB to download)");
    let mut install = Command::new(venv.join("bin/python"));
    install.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        JUPYTERLAB_REQUIREMENT,
    ]);
    let fix = format!(
        "check the network connection; `{}` needs neither Python nor a network",
        program::command(A_NOTEBOOK)
    );
    run_setup_step(install, "installing JupyterLab", &fix)?;
    std::fs::write(home.join("ready"), JUPYTERLAB_REQUIREMENT)
        .map_err(|e| Error::io(format!("writing into {}", home.display()), &e))?;
    Ok(venv.join("bin/jupyter-lab"))
}

fn run_setup_step(mut command: Command, action: &str, fix: &str) -> Result<()> {
    // Neither PYTHONPATH nor pip settings for "user" installs may apply there.
    command.env_remove("PYTHONPATH").env_remove("PYTHONHOME").env("PIP_USER", "0");
    let status = command.status().map_err(|e| Error::io(action, &e).fix(fix))?;
    if status.success() {
        return Ok(());
    }
    let why = format!("the command ended with {status}; its output is above");
    Err(Error::new(ErrorKind::Notebook, format!("{action} failed"), why).fix(fix))
}

/// Returns the nearest folder `notebooks` above the current folder, else that of the clone, else
/// the current folder.
fn notebooks_dir() -> Result<PathBuf> {
    let current_dir =
        std::env::current_dir().map_err(|e| Error::io("finding the current folder", &e))?;
    let clone = (Origin::of_this_binary() == Origin::Clone).then(notebooks::source_dir);
    let above = current_dir.ancestors().map(|dir| dir.join("notebooks"));
    let found = above.chain(clone).find(|dir| dir.is_dir());
    Ok(found.unwrap_or_else(|| {
        eprintln!("`{} notebooks` writes the notebooks of the course here", program::name());
        current_dir.clone()
    }))
}

fn jupyter_path_with(data: &Path) -> Result<std::ffi::OsString> {
    let others = std::env::var_os("JUPYTER_PATH").unwrap_or_default();
    let paths = std::iter::once(data.to_path_buf())
        .chain(std::env::split_paths(&others).filter(|p| !p.as_os_str().is_empty()));
    std::env::join_paths(paths)
        .map_err(|e| Error::setting("JUPYTER_PATH", data.display(), e.to_string()))
}
