//! The command `bundle`: a folder with the program for machines without a toolchain.

use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use clap::Args;
use epsilab::{Error, ErrorKind, Result, program};
use regex::bytes::Regex;

use crate::{prebuilt, programs, stdout};

/// Make a folder with the program for the nodes of a cluster or a machine with a GPU.
#[derive(Args, Debug)]
pub struct BundleArgs {
    /// The folder, where the nodes of a cluster can read it.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// For NVIDIA GPUs; needs neither a GPU nor CUDA here.
    #[arg(long)]
    cuda: bool,
    /// The oldest glibc that the program must run with, such as 2.28 [default: that of this
    /// machine's linker].
    #[arg(long, value_name = "VERSION")]
    glibc: Option<GlibcVersion>,
}

/// Version of the GNU C library, such as 2.28.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GlibcVersion(u32, u32);

impl GlibcVersion {
    /// Returns the version that a program needs: the highest of the symbols that it imports.
    fn required_by(program: &[u8]) -> Option<Self> {
        // Symbols of glibc 2.3.4 and the like: the third number does not matter.
        let version = Regex::new(r"(?-u)GLIBC_(\d+\.\d+)").expect("a valid pattern");
        let found = version.captures_iter(program);
        found.filter_map(|groups| std::str::from_utf8(&groups[1]).ok()?.parse().ok()).max()
    }
}

impl FromStr for GlibcVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('.').and_then(|(major, minor)| {
            Some(Self(major.parse().ok()?, minor.parse().ok()?)).filter(|version| version.0 == 2)
        });
        numbers.ok_or_else(|| "a version of glibc is two numbers, such as 2.28".into())
    }
}

impl fmt::Display for GlibcVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Compiles the program, checks that it runs and which version of glibc it needs, and writes the
/// folder.
///
/// # Errors
/// The program does not compile, needs a later glibc than asked for, or does not run here; or the
/// folder can't be written.
pub fn bundle(args: &BundleArgs) -> Result<()> {
    // Found out before minutes of compiling.
    std::fs::create_dir_all(&args.dir)
        .map_err(|e| Error::io(format!("making {}", args.dir.display()), &e))?;
    let local = program::glibc().and_then(|version| version.parse().ok());
    let zig = zig_glibc(args.glibc, local).map(|glibc| glibc.to_string());
    if zig.is_some() {
        check_zigbuild()?;
    }
    let compiled =
        prebuilt::compile_bundle(args.cuda, zig.as_deref(), &mut prebuilt::terminal_progress())?;
    let program = std::fs::read(&compiled)
        .map_err(|e| Error::io(format!("reading {}", compiled.display()), &e))?;
    let needed = GlibcVersion::required_by(&program);
    if let (Some(requested), Some(needed)) = (args.glibc, needed)
        && needed > requested
    {
        let what = format!("--glibc {requested}: the program needs glibc {needed}");
        return Err(Error::new(
            ErrorKind::Notebook,
            what,
            "the program would not start on such a machine",
        )
        .fix("build the bundle on a machine with an older system"));
    }
    let version = query_version(&compiled)?;
    write_bundle(&args.dir, &program, &readme_text(&version, args.cuda, needed))?;
    let size = program.len() as f64 / f64::from(1 << 20);
    let needs = needed.map_or_else(String::new, |needed| format!(", glibc {needed} or later"));
    stdout::print_line(&format!("{}: {version}, {size:.0} MiB{needs}", args.dir.display()))
}

/// Returns the version of glibc that `zig` must link for: one that is older than that of this
/// machine.
fn zig_glibc(requested: Option<GlibcVersion>, local: Option<GlibcVersion>) -> Option<GlibcVersion> {
    requested.filter(|requested| local.is_some_and(|local| *requested < local))
}

fn check_zigbuild() -> Result<()> {
    let name = "cargo-zigbuild";
    if programs::capture_stdout(Path::new(name), &["--version"]).is_some() {
        return Ok(());
    }
    let why = "the linker of this machine links only for its own glibc or a later one; \
               cargo-zigbuild links for earlier ones";
    Err(Error::new(ErrorKind::Notebook, format!("{name} (not found)"), why).fix(
        "`pip install cargo-zigbuild ziglang` in an active Python environment, then run the same \
         command again; or build the bundle on a machine with an older system, without --glibc",
    ))
}

/// Runs the program with `--version` and returns its output.
fn query_version(program: &Path) -> Result<String> {
    let failed = |why: String| {
        let what = format!("{} does not run here", program.display());
        let doctor = program::command("doctor");
        Error::new(ErrorKind::Notebook, what, why).fix(format!("`{doctor}` checks the toolchain"))
    };
    let done =
        Command::new(program).arg("--version").output().map_err(|e| failed(e.to_string()))?;
    if done.status.success() {
        Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
    } else {
        Err(failed(String::from_utf8_lossy(&done.stderr).trim().to_owned()))
    }
}

/// Returns the text of the file that describes the folder.
fn readme_text(version: &str, cuda: bool, needed: Option<GlibcVersion>) -> String {
    let system = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    let glibc = needed.map_or_else(String::new, |needed| format!(", glibc {needed} or later"));
    let cuda = if cuda {
        "\nNVIDIA GPUs: needs the driver, NVRTC and the CUDA headers; `./epsilab doctor` says \
             what is missing.\n"
    } else {
        ""
    };
    format!(
        "{version}, without notebooks, for {system}{glibc}.\n{cuda}\n\
         ./epsilab --help                 the commands\n\
         ./epsilab grid --engine slurm …  submits a grid whose nodes run this program\n\n\
         Another program can submit to nodes that run this one with --program PATH; both must be\n\
         of the same version.\n"
    )
}

/// Writes the files. The program is replaced by a rename, because nodes may be running the old one.
fn write_bundle(dir: &Path, program: &[u8], readme: &str) -> Result<()> {
    let io = |e: std::io::Error| Error::io(format!("writing into {}", dir.display()), &e);
    let new = tempfile::NamedTempFile::new_in(dir).map_err(io)?;
    std::fs::write(new.path(), program).map_err(io)?;
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(new.path(), all).map_err(io)?;
    new.persist(dir.join("epsilab")).map_err(|e| io(e.error))?;
    std::fs::write(dir.join("README.txt"), readme).map_err(io)?;
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        let from = Path::new(epsilab::SOURCE_DIR).join(licence);
        std::fs::copy(from, dir.join(licence)).map_err(io)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_of_an_imported_symbol_is_needed() {
        let needed = |text: &str| GlibcVersion::required_by(text.as_bytes());
        assert_eq!(
            needed("a GLIBC_2.9\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_PRIVATE\0"),
            Some(GlibcVersion(2, 34))
        );
        assert_eq!(needed("GLIBC_2.3.4\0"), Some(GlibcVersion(2, 3)));
        assert_eq!(needed("no version of GLIBC_\0"), None);
        if let Some(here) = program::glibc() {
            let here: GlibcVersion = here.parse().expect("two numbers");
            let program = std::fs::read(std::env::current_exe().expect("path")).expect("read");
            let needed = GlibcVersion::required_by(&program).expect("a program of this system");
            assert!(needed <= here, "{needed} {here}");
        }
    }

    #[test]
    fn zig_links_for_an_older_glibc() {
        let zig = |requested: &str, local: &str| {
            zig_glibc(requested.parse().ok(), local.parse().ok()).is_some()
        };
        assert!(zig("2.28", "2.36") && zig("2.9", "2.31"));
        assert!(!zig("2.36", "2.36") && !zig("2.100", "2.36"));
        assert_eq!(zig_glibc(None, Some(GlibcVersion(2, 36))), None);
        for wrong in ["2", "two", "3.1", "2.28.1", "2.x", ""] {
            assert!(wrong.parse::<GlibcVersion>().is_err(), "{wrong}");
        }
        assert_eq!(GlibcVersion(2, 28).to_string().parse(), Ok(GlibcVersion(2, 28)));
    }

    #[test]
    fn a_program_that_does_not_run_here_is_refused() {
        let dir = tempfile::tempdir().expect("temp");
        let missing = query_version(&dir.path().join("none")).expect_err("no program").to_string();
        assert!(missing.contains("does not run here"), "{missing}");
    }

    #[test]
    fn a_bundle_replaces_the_one_before() {
        let dir = tempfile::tempdir().expect("temp");
        for text in ["old", "new"] {
            write_bundle(dir.path(), text.as_bytes(), "about").expect("written");
            let program = dir.path().join("epsilab");
            assert_eq!(std::fs::read_to_string(program).expect("read"), text);
        }
        assert_eq!(std::fs::read_dir(dir.path()).expect("listed").count(), 4);
    }
}
