//! Job of the command `run`: one notebook, from its file to its results.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use epsilab::{Error, Result, file, program};
use tokio::runtime::Runtime;

use super::execute::execute;
use super::notebook::{Notebook, parent_of};
use super::report::HaltReason;
use super::result_paths::ResultPaths;
use super::{Profile, RunArgs, compact, compare, params};
use crate::html;
use crate::html::interactive::Libraries;
use crate::options::name_of;

/// A notebook to run.
pub struct NotebookJob<'a> {
    pub path: &'a PathBuf,
    notebook: Notebook,
    /// Folder in which the kernel of the notebook runs.
    working_dir: PathBuf,
    /// Files for the results, beside the notebook.
    pub result_paths: Option<ResultPaths>,
    /// The notebook with the outputs to compare with.
    expected: Option<Notebook>,
}

impl<'a> NotebookJob<'a> {
    /// Reads the notebook and chooses the paths of its results.
    ///
    /// # Errors
    /// As [`run`](super::run).
    pub fn prepare(path: &'a PathBuf, args: &RunArgs) -> Result<Self> {
        let mut notebook = Notebook::open_for_execution(path)?;
        params::inject(&mut notebook, &args.params, path)?;
        let folder = parent_of(path)
            .canonicalize()
            .map_err(|e| Error::io(format!("reading {}", path.display()), &e))?;
        let has_files = !args.inplace && (!args.compare || args.out.is_some());
        let targets =
            has_files.then(|| ResultPaths::resolve(path, args.out.as_deref())).transpose()?;
        let saved = args.compare.then(|| read_saved_outputs(path)).transpose()?;
        Ok(Self { path, notebook, working_dir: folder, result_paths: targets, expected: saved })
    }

    /// Runs the cells, writes the results and prints the reason if the execution ended early.
    ///
    /// # Errors
    /// The kernel can't be started, or the results can't be written.
    pub fn run(
        &mut self,
        runtime: &Runtime,
        variables: &[(&str, &str)],
        args: &RunArgs,
        profile: Profile,
        libraries: Option<&Libraries>,
    ) -> Result<Option<HaltReason>> {
        let executing = execute(&mut self.notebook, &self.working_dir, variables, args.timeout);
        let (mut halt, started) = runtime.block_on(executing)?;
        if let Some(saved) = self.expected.as_ref().filter(|_| halt.is_none()) {
            halt = self.compare(saved, profile);
        }
        let report = |halt: &Option<HaltReason>| {
            let colours = std::io::stderr().is_terminal();
            halt.iter().for_each(|halt| eprintln!("{}", halt.report(colours)));
        };
        if halt.is_some() && !started {
            // There are no results, and those of an earlier run must not be overwritten.
            report(&halt);
            eprintln!("no cell was started, so nothing was written");
            return Ok(halt);
        }
        let written = match &self.result_paths {
            Some(targets) => self.write(targets, args, libraries)?,
            None if args.inplace && halt.is_none() => {
                let small = compact::compact_notebook(&self.notebook, &name_of(&profile));
                file::write(self.path, small.to_text()?)?;
                vec![self.path]
            }
            None => Vec::new(),
        };
        report(&halt);
        written.iter().for_each(|path| eprintln!("wrote {}", path.display()));
        if args.inplace && halt.is_some() {
            eprintln!("{} is unchanged", self.path.display());
        }
        Ok(halt)
    }

    /// Writes the executed notebook and its page.
    fn write<'t>(
        &self,
        targets: &'t ResultPaths,
        args: &RunArgs,
        libraries: Option<&Libraries>,
    ) -> Result<Vec<&'t PathBuf>> {
        file::write(&targets.notebook, self.notebook.to_text()?)?;
        if args.no_html {
            return Ok(vec![&targets.notebook]);
        }
        let page =
            html::page_with(libraries, self.notebook.as_json(), &self.name(), &self.working_dir);
        file::write(&targets.page, page)?;
        Ok(vec![&targets.notebook, &targets.page])
    }

    /// Returns the file name of the notebook.
    fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Compares the outputs with the saved ones, and returns the reason to halt if they differ.
    fn compare(&self, saved: &Notebook, profile: Profile) -> Option<HaltReason> {
        let same = compact::saved_profile(saved) == Some(&name_of(&profile));
        let found = compare::differences(saved, &self.notebook, same);
        if !found.is_empty() {
            return Some(HaltReason::OutputsDiffer(found));
        }
        if same {
            eprintln!("the outputs are the saved ones")
        } else {
            eprintln!(
                "the outputs are of the same kinds as the saved ones, which are of the profile {}",
                compact::saved_profile(saved).unwrap_or_default()
            )
        }
        None
    }
}

/// Reads the notebook with its saved outputs.
fn read_saved_outputs(path: &Path) -> Result<Notebook> {
    let saved = Notebook::open_with_outputs(path)?;
    if compact::saved_profile(&saved).is_none() {
        let why =
            "the notebook has no outputs saved with --inplace, so there is nothing to compare";
        let save = program::command(&format!("run {} --inplace", path.display()));
        return Err(
            Error::setting("--compare", path.display(), why).fix(format!("save them: `{save}`"))
        );
    }
    Ok(saved)
}
