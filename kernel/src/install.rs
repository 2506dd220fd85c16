//! The commands `install`, `uninstall` and `list`.

use std::path::{Path, PathBuf};

use clap::Args;
use epsilab::{Error, ErrorKind, Result, program};
use serde_json::json;

use crate::kernelspec::{self, KernelKind, KernelSpec};
use crate::prebuilt::{self, STOCK_NAME};
use crate::run::notebook::KERNEL_NAME;
use crate::stdout;

/// Folder and name for the kernel.
#[derive(Args, Debug)]
pub struct InstallArgs {
    /// For this user (the default).
    #[arg(long, conflicts_with_all = ["sys_prefix", "prefix"])]
    pub user: bool,
    /// For the active virtual or conda environment.
    #[arg(long, conflicts_with = "prefix")]
    pub sys_prefix: bool,
    /// In DIR/share/jupyter/kernels.
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
    /// Name of the kernel in Jupyter [default: epsilab, or epsilab-stock with --stock].
    #[arg(long)]
    pub name: Option<String>,
    /// evcxr's own kernel with the lab in its cells, as a fallback.
    #[arg(long)]
    pub stock: bool,
}

/// Show where Jupyter finds this kernel.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// Also look in DIR/share/jupyter/kernels.
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
    /// Print one line of JSON.
    #[arg(long)]
    pub json: bool,
}

impl InstallArgs {
    /// Returns the name of the kernel.
    fn kernel_name(&self) -> Result<String> {
        let usual = if self.stock { STOCK_NAME } else { KERNEL_NAME };
        kernelspec::validate_name(self.name.as_deref().unwrap_or(usual))
    }

    /// Returns the folder of the kernelspecs.
    fn kernelspecs_dir(&self) -> Result<PathBuf> {
        let data = if let Some(prefix) = &self.prefix {
            jupyter_data_dir(prefix)?
        } else if self.sys_prefix {
            jupyter_data_dir(&kernelspec::sys_prefix()?)?
        } else {
            kernelspec::user_data_dir()?
        };
        Ok(data.join("kernels"))
    }
}

/// Registers the kernel. Builds the lab first, so that the first notebook starts fast.
///
/// # Errors
/// A bad name, another kernel of that name, a folder that can't be written, or no lab.
pub fn install(args: &InstallArgs) -> Result<()> {
    let name = args.kernel_name()?;
    let kernels = args.kernelspecs_dir()?;
    let lab = prebuilt::ensure_built(&mut prebuilt::terminal_progress())?;
    let kind = if args.stock {
        prebuilt::stock_program(true, &mut prebuilt::terminal_progress())?;
        KernelKind::Stock
    } else {
        KernelKind::Lab
    };
    let dir = kernelspec::write_spec(&kernels, &name, kind, &lab.kernelspec_env)?;
    eprintln!("installed the kernel \"{name}\" in {}", dir.display());
    Ok(())
}

/// Removes the files that `install` created.
///
/// # Errors
/// There is no such kernel, or another program installed it.
pub fn uninstall(args: &InstallArgs) -> Result<()> {
    let name = args.kernel_name()?;
    let dir = args.kernelspecs_dir()?.join(&name);
    if !dir.exists() {
        return Err(Error::new(
            ErrorKind::Notebook,
            format!("no kernel \"{name}\" in {}", dir.parent().unwrap_or(&dir).display()),
            "there is nothing to remove",
        )
        .fix(format!("`{}` shows where the kernel is installed", program::command("list"))));
    }
    if KernelSpec::read(&dir).is_none() {
        return Err(Error::new(
            ErrorKind::Notebook,
            format!("{} is not a kernel of Epsilab", dir.display()),
            "Epsilab did not install it, so it is not removed",
        )
        .fix("remove it with `jupyter kernelspec remove`"));
    }
    // Of a link, only the link is removed.
    let removed =
        if dir.is_symlink() { std::fs::remove_file(&dir) } else { std::fs::remove_dir_all(&dir) };
    removed.map_err(|e| Error::io(format!("removing {}", dir.display()), &e))?;
    eprintln!("removed the kernel \"{name}\" from {}", dir.display());
    Ok(())
}

/// Prints all our kernelspecs that Jupyter can find.
///
/// # Errors
/// The current folder does not exist, or stdout is closed.
pub fn list(args: &ListArgs) -> Result<()> {
    let more: Vec<PathBuf> =
        args.prefix.iter().map(|p| jupyter_data_dir(p)).collect::<Result<_>>()?;
    let found = kernelspec::find_all(&more);
    if args.json {
        stdout::print_line(&json!(found.iter().map(spec_to_json).collect::<Vec<_>>()).to_string())?;
    } else if found.is_empty() {
        let install = program::command("install");
        eprintln!("the kernel is not installed; `{install}` does it for your own Jupyters");
    } else {
        let width = found.iter().map(|spec| spec.name.len()).max().unwrap_or_default();
        for spec in &found {
            let note = if spec.binary_exists() {
                String::new()
            } else {
                format!("  (broken: no program {})", spec.binary.display())
            };
            stdout::print_line(&format!("{:<width$}  {}{note}", spec.name, spec.dir.display()))?;
        }
    }
    Ok(())
}

/// Converts a kernelspec to JSON.
pub fn spec_to_json(spec: &KernelSpec) -> serde_json::Value {
    json!({"name": spec.name, "dir": spec.dir, "binary": spec.binary,
        "binary_exists": spec.binary_exists(), "version": spec.version})
}

fn jupyter_data_dir(prefix: &Path) -> Result<PathBuf> {
    let prefix = std::path::absolute(prefix)
        .map_err(|e| Error::io(format!("finding {}", prefix.display()), &e))?;
    Ok(prefix.join("share/jupyter"))
}
