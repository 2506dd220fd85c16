//! A made-up machine with the stand-in driver, and the program on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The libraries of the stand-in, compiled once per test program.
pub fn libraries() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cuda-stand-in");
        fs::create_dir_all(&folder).expect("a folder for the libraries");
        for (source, options, library) in [
            ("driver.c", &["-lpthread"][..], "libcuda.so.1"),
            ("nvrtc.c", &["-Wl,-soname,libnvrtc.so.12"], "libnvrtc.so.12"),
            ("nvrtc.c", &["-DINCOMPLETE"], "libnvrtc-incomplete.so"),
        ] {
            let source =
                Path::new(env!("CARGO_MANIFEST_DIR")).join("../support/cuda-stand-in").join(source);
            let output = Command::new("cc")
                .args(["-shared", "-fPIC", "-O1", "-o"])
                .arg(folder.join(library))
                .arg(source)
                .args(options)
                .output()
                .expect("a C compiler, which Rust needs for linking as well");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        folder
    })
}

/// How a command ended.
pub struct Ended {
    /// `None` if it was killed after the time limit.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Whether the stand-in was told to fail and did.
    pub fn failed_as_told(&self) -> bool {
        self.stderr.contains("stand-in: failed")
    }
}

/// A machine with the stand-in driver and a toolkit folder, and a project folder of its own.
pub struct Machine {
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
    toolkit: PathBuf,
}

impl Machine {
    /// With a driver, but neither NVRTC nor headers.
    pub fn with_driver() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for part in ["driver", "toolkit/lib64", "toolkit/include", "project"] {
            fs::create_dir_all(folder.path().join(part)).expect("a folder");
        }
        fs::copy(libraries().join("libcuda.so.1"), folder.path().join("driver/libcuda.so.1"))
            .expect("the driver");
        let toolkit = folder.path().join("toolkit");
        Self { folder, variables: Vec::new(), toolkit }
    }

    /// With driver, headers (empty files) and this NVRTC.
    pub fn with_nvrtc(library: &str) -> Self {
        let machine = Self::with_driver();
        let target = machine.toolkit.join("lib64/libnvrtc.so.12");
        fs::copy(libraries().join(library), target).expect("the library");
        for header in ["cuda_fp16.h", "crt/mma.h", "cuda/barrier", "nv/target"] {
            let path = machine.toolkit.join("include").join(header);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, "").expect("a header");
        }
        machine
    }

    /// With everything of the stand-in.
    pub fn complete() -> Self {
        Self::with_nvrtc("libnvrtc.so.12")
    }

    /// Sets an environment variable.
    pub fn set(mut self, name: &str, value: impl ToString) -> Self {
        self.variables.push((name.into(), value.to_string()));
        self
    }

    /// Runs the program, for at most this many seconds.
    pub fn run_for(&self, seconds: u64, arguments: &str) -> Ended {
        let [stdout, stderr] = ["stdout", "stderr"].map(|name| self.folder.path().join(name));
        let mut command = Command::new(env!("CARGO_BIN_EXE_epsilab"));
        for variable in ["CUDA_HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "EPSILAB_DEVICE"] {
            command.env_remove(variable);
        }
        let mut child = command
            .args(arguments.split_whitespace())
            .env("LD_LIBRARY_PATH", self.folder.path().join("driver"))
            .env("CUDA_PATH", &self.toolkit)
            .env("HOME", self.folder.path())
            .env("XDG_CACHE_HOME", self.folder.path())
            .env("EPSILAB_HOME", self.folder.path().join("project"))
            .envs(self.variables.iter().cloned())
            .stdin(Stdio::null())
            .stdout(fs::File::create(&stdout).expect("a file"))
            .stderr(fs::File::create(&stderr).expect("a file"))
            .spawn()
            .expect("the program starts");
        let end = Instant::now() + Duration::from_secs(seconds);
        let code = loop {
            if let Some(status) = child.try_wait().expect("its status") {
                break status.code();
            }
            if Instant::now() > end {
                child.kill().and_then(|()| child.wait()).expect("killed");
                break None;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let read = |path| String::from_utf8_lossy(&fs::read(path).expect("output")).into_owned();
        Ended { code, stdout: read(&stdout), stderr: read(&stderr) }
    }

    pub fn run(&self, arguments: &str) -> Ended {
        self.run_for(60, arguments)
    }

    /// The lines of all ledgers of the project.
    pub fn ledger(&self) -> Vec<serde_json::Value> {
        let folder = self.folder.path().join("project/ledger");
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        let ledgers = files.filter(|file| file.path().extension().is_some_and(|e| e == "jsonl"));
        let texts = ledgers.map(|file| fs::read_to_string(file.path()).expect("a ledger"));
        let lines = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let lines = texts.flat_map(lines).filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_str(&line).expect("JSON")).collect()
    }
}
