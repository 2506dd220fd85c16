//! The command `run`: executes a notebook without Jupyter or Python and writes the results.

pub mod notebook;
pub mod outputs;
mod report;
pub mod session;
pub mod stop;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use epsilab::device::{DEVICE_VARIABLE, DeviceSpec};
use epsilab::{Error, ErrorKind, Result};
use jupyter_zmq_client::{ErrorOutput, ExecuteReply, ReplyStatus};

use crate::{html, prebuilt};
use notebook::{Notebook, write_whole};
use outputs::Outputs;
use report::{Halt, Progress};
use session::{Ended, Session};
use stop::Stop;

/// Environment variable that tells cells the profile.
const PROFILE: &str = "EPSILAB_PROFILE";

/// Execute a notebook and write the executed notebook and an HTML page.
#[derive(clap::Args, Debug)]
pub struct RunArgs {
    /// The notebook (.ipynb).
    #[arg(value_name = "NB")]
    pub notebook: PathBuf,
    /// Write DIR/NB.ipynb and DIR/NB.html [default: NB.executed.ipynb and NB.html beside NB].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// How much the notebook computes (default: EPSILAB_PROFILE from the environment).
    #[arg(long)]
    pub profile: Option<Profile>,
    /// Device for training: cpu, cuda, cuda:1, wgpu (default: EPSILAB_DEVICE from the environment,
    /// else a CUDA GPU if one works, else cpu).
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Stop if one cell takes longer than this many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: Option<u64>,
}

/// How much a notebook computes.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Profile {
    /// Seconds: checks that everything works.
    Tiny,
    /// Minutes on two cores.
    Default,
    /// As in the papers.
    Full,
}

impl Profile {
    fn name(self) -> &'static str {
        match self {
            Profile::Tiny => "tiny",
            Profile::Default => "default",
            Profile::Full => "full",
        }
    }

    /// The profile from the option, else from the environment.
    fn choose(asked: Option<Self>) -> Result<Self> {
        if let Some(asked) = asked {
            return Ok(asked);
        }
        match std::env::var_os(PROFILE) {
            None => Ok(Profile::Default),
            Some(value) if value.is_empty() => Ok(Profile::Default),
            Some(value) => {
                let value = value.to_string_lossy();
                <Self as clap::ValueEnum>::from_str(&value, false).map_err(|_| {
                    Error::setting(PROFILE, format!("{value:?}"), "there is no such profile")
                        .fix("set it to tiny, default or full, or name one with `--profile`")
                })
            }
        }
    }
}

/// Runs the notebook. The exit code is 0 if every cell succeeded.
///
/// # Errors
/// The notebook can't be read, the results can't be written, or the lab can't be built.
pub fn run(args: &RunArgs) -> Result<ExitCode> {
    let profile = Profile::choose(args.profile)?;
    let mut notebook = Notebook::read(&args.notebook)?;
    let targets = Targets::choose(&args.notebook, args.out.as_deref())?;
    let place = match &args.device {
        Some(name) => name.parse::<DeviceSpec>()?.checked()?,
        None => DeviceSpec::auto()?,
    };
    eprintln!("profile: {}, device: {}", profile.name(), place.describe());
    prebuilt::ensure(&mut |line| eprintln!("{line}"))?;
    // The kernel ends with the thread that started it, so everything runs on this one.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::io("starting the runner", &e))?;
    let place = place.to_string();
    let said = [(PROFILE, profile.name()), (DEVICE_VARIABLE, place.as_str())];
    let executing = execute(&mut notebook, &targets.folder, &said, args.timeout);
    let Executed { halt, started } = runtime.block_on(executing)?;
    if let (Some(halt), false) = (&halt, started) {
        // There are no results, and those of an earlier run must not be overwritten.
        eprintln!("{}", halt.report(std::io::stderr().is_terminal()));
        eprintln!("no cell was started, so nothing was written");
        return Ok(halt.code());
    }
    write_whole(&targets.notebook, &notebook.to_text()?)?;
    let page = html::page(notebook.json(), &targets.name, &targets.folder);
    write_whole(&targets.page, &page)?;
    if let Some(halt) = &halt {
        eprintln!("{}", halt.report(std::io::stderr().is_terminal()));
    }
    eprintln!("wrote {}\nwrote {}", targets.notebook.display(), targets.page.display());
    Ok(halt.map_or(ExitCode::SUCCESS, |halt| halt.code()))
}

/// Paths of the results, which never overwrite the source.
struct Targets {
    folder: PathBuf,
    name: String,
    notebook: PathBuf,
    page: PathBuf,
}

impl Targets {
    fn choose(source: &Path, out: Option<&Path>) -> Result<Self> {
        let reading = |e: &std::io::Error| Error::io(format!("reading {}", source.display()), e);
        let real = source.canonicalize().map_err(|e| reading(&e))?;
        let beside =
            source.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = beside.canonicalize().map_err(|e| reading(&e))?;
        let stem = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (to, notebook) = match out {
            None => (source.with_file_name(""), format!("{stem}.executed.ipynb")),
            Some(out) => (out.to_path_buf(), format!("{stem}.ipynb")),
        };
        // The parent of a bare file name is empty.
        let in_use = if to.as_os_str().is_empty() { Path::new(".") } else { &to };
        std::fs::create_dir_all(in_use)
            .map_err(|e| Error::io(format!("making the folder {}", to.display()), &e))?;
        // Fails now rather than after minutes of training.
        tempfile::tempfile_in(in_use).map_err(|e| {
            Error::io(format!("writing to {}", to.display()), &e)
                .fix("name a folder of yours with `--out DIR`")
        })?;
        let targets = Self {
            folder,
            name: format!("{stem}.ipynb"),
            notebook: to.join(notebook),
            page: to.join(format!("{stem}.html")),
        };
        if targets.notebook.canonicalize().is_ok_and(|there| there == real) {
            return Err(Error::new(
                ErrorKind::Setting,
                format!("--out {} is the notebook's own folder", to.display()),
                "the executed notebook would be written over its source",
            )
            .fix("name another folder, or leave `--out` away"));
        }
        Ok(targets)
    }
}

/// State of the execution.
struct Executed {
    halt: Option<Halt>,
    /// At least one cell was started.
    started: bool,
}

async fn execute(
    notebook: &mut Notebook,
    folder: &Path,
    said: &[(&str, &str)],
    timeout: Option<u64>,
) -> Result<Executed> {
    let mut stop = Stop::listen();
    let cells = notebook.code();
    let mut outputs = Outputs::new(cells.len());
    let mut session = tokio::select! {
        session = Session::start(folder, said) => session?,
        () = stop.asked() => {
            return Ok(Executed { halt: Some(Halt::Interrupted), started: false });
        }
    };
    notebook.set_language(session.language().clone());
    let limit = timeout.map(Duration::from_secs);
    let mut halt = warm_up(&mut session, &mut outputs, &mut stop).await;
    let started = halt.is_none();
    for (number, (at, source)) in cells.iter().enumerate() {
        if halt.is_some() {
            break;
        }
        let may_fail = notebook.may_fail(*at);
        let progress = Progress::start(number + 1, cells.len(), source);
        let request = session::request(source, may_fail);
        let ended = session.execute(number, request, limit, &mut outputs, &mut stop).await;
        halt = match ended {
            Ok(Ended::Replied(reply)) => {
                let failed = !matches!(reply.status, ReplyStatus::Ok);
                if failed && outputs.failure(number).is_none() {
                    // An error that was not published must still appear in the notebook.
                    outputs.take(number, &unpublished(&reply).into());
                }
                match outputs.failure(number) {
                    Some(failure) if !may_fail => Some(Halt::Failed {
                        number: number + 1,
                        of: cells.len(),
                        source: source.clone(),
                        failure: failure.clone(),
                    }),
                    _ => None,
                }
            }
            Ok(Ended::Interrupted) => Some(Halt::Interrupted),
            Ok(Ended::TooLong) => Some(Halt::TooLong {
                number: number + 1,
                source: source.clone(),
                seconds: timeout.unwrap_or_default(),
            }),
            Err(error) => Some(Halt::Lost(error)),
        };
        progress.finish(halt.is_some(), outputs.failure(number).is_some());
    }
    session.shut_down().await;
    for (number, (at, _)) in cells.iter().enumerate() {
        let (count, shown) = outputs.of(number);
        notebook.set_outputs(*at, count, shown);
    }
    Ok(Executed { halt, started })
}

/// Waits until the kernel runs cells, so that the time of the first cell does not include the
/// start.
async fn warm_up(session: &mut Session, outputs: &mut Outputs, stop: &mut Stop) -> Option<Halt> {
    let progress = Progress::warm_up();
    let halt = match session.execute(usize::MAX, session::silent("();"), None, outputs, stop).await
    {
        Ok(Ended::Replied(reply)) if matches!(reply.status, ReplyStatus::Ok) => None,
        Ok(Ended::Replied(reply)) => {
            let error = unpublished(&reply);
            Some(Halt::Lost(
                Error::new(
                    ErrorKind::Notebook,
                    "the kernel can't evaluate anything",
                    html::without_colours(&error.evalue),
                )
                .fix("`cargo lab doctor` looks for the cause"),
            ))
        }
        Ok(_) => Some(Halt::Interrupted),
        Err(error) => Some(Halt::Lost(error)),
    };
    progress.finish(halt.is_some(), false);
    halt
}

fn unpublished(reply: &ExecuteReply) -> ErrorOutput {
    match &reply.error {
        Some(error) => ErrorOutput {
            ename: error.ename.clone(),
            evalue: error.evalue.clone(),
            traceback: error.traceback.clone(),
        },
        None => ErrorOutput {
            ename: "Aborted".into(),
            evalue: "the kernel did not run the cell".into(),
            traceback: Vec::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_never_land_on_the_source() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let source = folder.path().join("a.ipynb");
        std::fs::write(&source, "{}").expect("written");
        let beside = Targets::choose(&source, None).expect("beside");
        assert_eq!(beside.notebook, folder.path().join("a.executed.ipynb"));
        assert_eq!(beside.page, folder.path().join("a.html"));
        let out = folder.path().join("new/out");
        let elsewhere = Targets::choose(&source, Some(&out)).expect("elsewhere");
        assert_eq!(elsewhere.notebook, out.join("a.ipynb"));
        assert!(out.is_dir());
        for same in [folder.path().to_path_buf(), folder.path().join("new/..")] {
            let refused = Targets::choose(&source, Some(&same)).err().expect("refused");
            assert!(refused.to_string().contains("over its source"), "{refused}");
        }
    }
}
