//! Opens JupyterLab on the notebooks with this kernel. Environments of the user are not changed.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;
use epsilab::{Error, ErrorKind, Result, program};

use crate::kernelspec::{self, Kind};
use crate::prebuilt::{self, Origin};
use crate::run::notebook::KERNEL;
use crate::{notebooks, programs, root};

/// Packages to install if no JupyterLab is found.
const JUPYTERLAB: &str = "jupyterlab==4.6.6";

/// The command that runs a notebook without JupyterLab.
const A_NOTEBOOK: &str = "run notebooks/NAME.ipynb";

/// Options for opening JupyterLab.
#[derive(Args, Debug)]
pub struct JupyterArgs {
    /// Start the server without opening a browser (also: EPSILAB_NO_BROWSER=1).
    #[arg(long)]
    pub no_browser: bool,
    /// Arguments for JupyterLab, after `--`.
    #[arg(last = true, value_name = "ARGS")]
    pub rest: Vec<String>,
}

/// Folder for our own environment: in cargo's target folder, else in the user's cache.
pub fn home() -> Option<PathBuf> {
    match prebuilt::target() {
        Some(target) => Some(target.join("lab-jupyter")),
        None => Some(dirs::cache_dir()?.join("epsilab/lab-jupyter")),
    }
}

/// JupyterLab on the PATH, if it can be run (a pyenv shim may not).
pub fn on_path() -> Option<PathBuf> {
    programs::on_path("jupyter-lab").filter(|lab| programs::says(lab, &["--version"]).is_some())
}

/// JupyterLab in our own environment, if it is complete.
pub fn own() -> Option<PathBuf> {
    let home = home()?;
    let ready = std::fs::read_to_string(home.join("ready")).ok()?;
    // An update of Python can break the environment.
    Some(home.join("venv/bin/jupyter-lab"))
        .filter(|lab| ready == JUPYTERLAB && programs::says(lab, &["--version"]).is_some())
}

/// Opens JupyterLab, which replaces this process. Returns only if that fails.
///
/// # Errors
/// Python is missing, the user is root and JupyterLab refuses that, the lab can't be built, or
/// JupyterLab can't be installed or started.
pub fn open(args: &JupyterArgs) -> Result<ExitCode> {
    let home = home().ok_or_else(|| {
        Error::new(ErrorKind::Notebook, "no cache folder", "the kernel is registered there")
            .fix("set HOME")
    })?;
    root::check(args, &prefixes(&home))?;
    let (lab, data) = match on_path() {
        Some(lab) => {
            eprintln!("JupyterLab found: {}", lab.display());
            (lab, home.join("share/jupyter"))
        }
        None => {
            let lab = own().map_or_else(|| set_up_once(&home), Ok)?;
            eprintln!("JupyterLab in its own environment: {}", lab.display());
            (lab, home.join("venv/share/jupyter"))
        }
    };
    let prebuilt = prebuilt::ensure(&mut prebuilt::to_terminal())?;
    let spec = kernelspec::write(&data.join("kernels"), KERNEL, Kind::Lab, &prebuilt.env)?;
    eprintln!("kernel registered for this JupyterLab only: {}", spec.display());
    let notebooks = notebooks()?;
    eprintln!("opening {} (Ctrl-C twice ends JupyterLab)", notebooks.display());

    let mut command = Command::new(&lab);
    command.arg(&notebooks).env("JUPYTER_PATH", with_our_data(&data)?);
    if args.no_browser || std::env::var_os("EPSILAB_NO_BROWSER").is_some_and(|v| !v.is_empty()) {
        command.arg("--no-browser");
    }
    command.args(&args.rest);
    // JupyterLab handles Ctrl-C itself.
    Err(programs::hand_over(command))
}

/// The folders in which the JupyterLab that is opened may be installed.
fn prefixes(home: &Path) -> Vec<PathBuf> {
    let found = programs::on_path("jupyter-lab");
    let on_path = found.as_deref().and_then(|lab| lab.parent()?.parent());
    on_path.map(Path::to_owned).into_iter().chain([home.join("venv")]).collect()
}

/// Installs under a lock, so that a second program waits for the first.
fn set_up_once(home: &Path) -> Result<PathBuf> {
    let locking = |e: std::io::Error| Error::io(format!("locking {}", home.display()), &e);
    std::fs::create_dir_all(home).map_err(locking)?;
    let lock = std::fs::File::create(home.join(".lock")).map_err(locking)?;
    if lock.try_lock().is_err() {
        eprintln!("another `{}` is setting JupyterLab up: waiting for it", program::name());
        lock.lock().map_err(locking)?;
    }
    own().map_or_else(|| set_up(home), Ok)
}

/// Creates a virtual environment with JupyterLab. An incomplete one is replaced.
fn set_up(home: &Path) -> Result<PathBuf> {
    let venv = home.join("venv");
    let python = programs::python().ok_or_else(|| {
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
    eprintln!("1/2 virtual environment with {} (some seconds)", python.display());
    let mut make = Command::new(&python);
    make.args(["-m", "venv"]).arg(&venv);
    step(make, "making the virtual environment", {
        "on Debian and Ubuntu: `apt install python3-venv`; then try again"
    })?;
    eprintln!("2/2 {JUPYTERLAB} from PyPI (about a minute, some 50 MB to download)");
    let mut install = Command::new(venv.join("bin/python"));
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", JUPYTERLAB]);
    let fix = format!(
        "is this machine online? `{}` needs neither Python nor net",
        program::command(A_NOTEBOOK)
    );
    step(install, "installing JupyterLab", &fix)?;
    std::fs::write(home.join("ready"), JUPYTERLAB)
        .map_err(|e| Error::io(format!("writing into {}", home.display()), &e))?;
    Ok(venv.join("bin/jupyter-lab"))
}

fn step(mut command: Command, doing: &str, fix: &str) -> Result<()> {
    // Neither PYTHONPATH nor pip settings for "user" installs may apply there.
    command.env_remove("PYTHONPATH").env_remove("PYTHONHOME").env("PIP_USER", "0");
    let status = command.status().map_err(|e| Error::io(doing, &e).fix(fix))?;
    if status.success() {
        return Ok(());
    }
    let why = format!("it ended with {status}; what it said stands above");
    Err(Error::new(ErrorKind::Notebook, format!("{doing} failed"), why).fix(fix))
}

/// The nearest folder `notebooks` above the current folder, else that of the clone, else the
/// current folder.
fn notebooks() -> Result<PathBuf> {
    let here = std::env::current_dir().map_err(|e| Error::io("finding the current folder", &e))?;
    let clone = (Origin::of_this_binary() == Origin::Clone).then(notebooks::source);
    let above = here.ancestors().map(|dir| dir.join("notebooks"));
    let found = above.chain(clone).find(|dir| dir.is_dir());
    Ok(found.unwrap_or_else(|| {
        eprintln!("`{} notebooks` writes the notebooks of the course here", program::name());
        here.clone()
    }))
}

fn with_our_data(data: &Path) -> Result<std::ffi::OsString> {
    let others = std::env::var_os("JUPYTER_PATH").unwrap_or_default();
    let paths = std::iter::once(data.to_path_buf())
        .chain(std::env::split_paths(&others).filter(|p| !p.as_os_str().is_empty()));
    std::env::join_paths(paths)
        .map_err(|e| Error::setting("JUPYTER_PATH", data.display(), e.to_string()))
}
