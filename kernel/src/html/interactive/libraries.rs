//! The libraries that draw interactive figures: pinned files that are not part of this program.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use epsilab::{Error, ErrorKind, Result};
use sha2::{Digest, Sha512};

use super::fetch::fetch;
use crate::prebuilt::hex;

/// Environment variable with the folder of the libraries.
pub const LIBRARIES_ENV_VAR: &str = "EPSILAB_VEGA";

/// Maximum size of a library's file in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// A package of npm with its minified build.
pub struct Library {
    pub name: &'static str,
    pub version: &'static str,
    /// SHA-512 of `build/NAME.min.js`, in hexadecimal.
    sha512: &'static str,
}

/// Libraries in the order in which a page needs them.
pub const LIBRARIES: [Library; 3] = [
    Library {
        name: "vega",
        version: "5.33.1",
        sha512: "f86562055d36965762e1a04e47c39631d1aee40a6a011506ebd06487484d9c4c\
                 0646a59ba81155e9414c90e4b0e9bc1578b01409f5c38efa2060773abcc4d5f7",
    },
    Library {
        name: "vega-lite",
        version: "5.23.0",
        sha512: "753de93d0731cec862bf45a7914cc14ba04c1029fde6e115bc87687dd3b88cd8\
                 3cad2943a9eb8ccaf114bd9f176ebf23430208b4a9f3062d05fc1d346eeacd71",
    },
    Library {
        name: "vega-embed",
        version: "6.29.0",
        sha512: "d1155f2ca1d681ea5e1d8a332cb8f9af11f62abd7cafe410418dd7806a894236\
                 3e179da7b005807bc76b4985a4b00a54cba1791a2cd7eec5ee66ef2bc66ce96f",
    },
];

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

impl Library {
    /// Returns the name of the library's file in the cache, such as `vega-5.33.1.min.js`.
    pub fn cache_file_name(&self) -> String {
        format!("{}-{}.min.js", self.name, self.version)
    }

    /// Returns the name of the archive that `npm pack` writes.
    fn archive(&self) -> String {
        format!("{}-{}.tgz", self.name, self.version)
    }

    /// Returns the paths in a folder at which the library may be.
    fn candidate_paths(&self) -> [String; 5] {
        let build = format!("{}/build/{0}.min.js", self.name);
        let plain = format!("{}.min.js", self.name);
        [self.cache_file_name(), plain, format!("node_modules/{build}"), build, self.archive()]
    }

    /// Returns the text of the library in a folder, from the first file with the right hash.
    ///
    /// # Errors
    /// There is no such file, or what is there is another version.
    pub fn load_from(&self, folder: &Path) -> Result<String> {
        let mut others = Vec::new();
        for path in self.candidate_paths().iter().map(|path| folder.join(path)) {
            match self.read(&path) {
                None => {}
                Some(bytes) if hex(&Sha512::digest(&bytes)) == self.sha512 => {
                    return Ok(String::from_utf8_lossy(&bytes).into_owned());
                }
                Some(_) => others.push(path.display().to_string()),
            }
        }
        let found = match others.as_slice() {
            [] => format!("neither {} nor {} is there", self.cache_file_name(), self.archive()),
            others => format!("{} is not its minified build (SHA-512)", others.join(", ")),
        };
        let kind = if others.is_empty() { ErrorKind::Notebook } else { ErrorKind::CorruptData };
        Err(Error::new(kind, format!("no {self} in {}", folder.display()), found))
    }

    /// Returns the bytes of a file, or of the build in an archive.
    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let file = std::fs::File::open(path).ok()?;
        let mut bytes = Vec::new();
        if path.extension().is_some_and(|ending| ending == "tgz") {
            let mut archive =
                tar::Archive::new(flate2::read::GzDecoder::new(file).take(8 * MAX_FILE_BYTES));
            let wanted = format!("package/build/{}.min.js", self.name);
            let mut entries = archive.entries().ok()?.filter_map(std::result::Result::ok);
            let entry = entries.find(|e| e.path().is_ok_and(|p| p == Path::new(&wanted)))?;
            entry.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
        } else {
            file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
        }
        Some(bytes)
    }
}

/// Texts of the libraries for script elements.
pub struct Libraries(Vec<String>);

impl Libraries {
    /// Reads the libraries from the folder that `EPSILAB_VEGA` names, else from the user's cache,
    /// into which `npm` fetches them the first time.
    ///
    /// # Errors
    /// They are not there and can't be fetched; the error says how to bring them.
    pub fn locate_or_fetch() -> Result<Self> {
        let named = std::env::var_os(LIBRARIES_ENV_VAR).filter(|folder| !folder.is_empty());
        if let Some(folder) = named.map(PathBuf::from) {
            return Self::load_from(&folder).map_err(|error| error.fix(install_advice()));
        }
        let cache = dirs::cache_dir().ok_or_else(|| {
            let why = "the libraries of interactive figures are kept there";
            Error::new(ErrorKind::Notebook, "no cache folder", why)
                .fix(format!("set HOME, or {LIBRARIES_ENV_VAR} to a folder with the libraries"))
        })?;
        let cache = cache.join("epsilab/vega");
        Self::load_from(&cache).or_else(|_| fetch(&cache).and_then(|()| Self::load_from(&cache)))
    }

    fn load_from(folder: &Path) -> Result<Self> {
        let text = |library: &Library| Ok(without_source_map(&library.load_from(folder)?));
        Ok(Self(LIBRARIES.iter().map(text).collect::<Result<_>>()?))
    }

    /// Returns the texts, in the order in which a page needs them. None of them ends a script
    /// element.
    pub fn scripts(&self) -> &[String] {
        &self.0
    }

    #[cfg(test)]
    pub fn for_tests() -> Self {
        Self(LIBRARIES.iter().map(|library| format!("/* {library} */")).collect())
    }
}

/// Returns the text without the comment that names a source map, which a browser might look for.
fn without_source_map(text: &str) -> String {
    text.split("\n//# sourceMappingURL=").next().unwrap_or_default().to_owned()
}

/// Returns advice for missing libraries.
pub fn install_advice() -> String {
    let names = LIBRARIES.map(|library| format!("{}@{}", library.name, library.version)).join(" ");
    format!(
        "run `npm pack {names}` on a machine with npm and internet, copy the three .tgz files into \
         a folder here, and set {LIBRARIES_ENV_VAR} to it; or leave out `--interactive`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A library whose build is `x`.
    const X: Library = Library {
        name: "vega",
        version: "5.33.1",
        sha512: "a4abd4448c49562d828115d13a1fccea927f52b4d5459297f8b43e42da89238b\
                 c13626e43dcb38ddb082488927ec904fb42057443983e88585179d50551afe62",
    };

    #[test]
    fn a_library_is_found_by_its_hash_in_files_packages_and_archives() {
        for candidate in X.candidate_paths() {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join(&candidate);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            let write = |content: &[u8]| {
                if candidate.ends_with(".tgz") {
                    let file = std::fs::File::create(&path).expect("a file");
                    let zip = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
                    let mut archive = tar::Builder::new(zip);
                    for name in ["package/index.js", "package/build/vega.min.js"] {
                        let mut header = tar::Header::new_gnu();
                        header.set_size(content.len() as u64);
                        archive.append_data(&mut header, name, content).expect("written");
                    }
                    archive.into_inner().and_then(|zip| zip.finish()).expect("written");
                } else {
                    std::fs::write(&path, content).expect("written")
                }
            };
            write(b"x");
            assert_eq!(X.load_from(folder.path()).expect(&candidate), "x");
            write(b"another version");
            let error = X.load_from(folder.path()).expect_err(&candidate);
            assert_eq!(error.kind(), ErrorKind::CorruptData, "{error}");
            assert!(error.to_string().contains(&candidate), "{error}");
        }
    }

    #[test]
    fn missing_libraries_are_named_with_what_to_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = Libraries::load_from(folder.path()).map(|_| ()).expect_err("nothing is there");
        let text = error.fix(install_advice()).to_string();
        for word in ["vega-5.33.1.tgz", "vega-embed@6.29.0", LIBRARIES_ENV_VAR] {
            assert!(text.contains(word), "{text}");
        }
        assert_eq!(without_source_map("f()\n//# sourceMappingURL=a.js.map\n"), "f()");
    }
}
