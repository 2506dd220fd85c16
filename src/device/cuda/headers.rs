//! Search for the CUDA headers, which kernels include when they are compiled.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::user_cache;

/// Required headers, one of each component. The third is in `cccl` in newer versions.
const REQUIRED: [&str; 4] = ["cuda_fp16.h", "crt/mma.h", "cuda/barrier", "nv/target"];

/// Returns the folder with all headers for this NVRTC, if they were found.
///
/// Searched are `CUDA_PATH`, the installation that the library belongs to, `CUDA_HOME` and the
/// usual folders of toolkits. The Python packages for CUDA 12 have their headers in several
/// folders, which are joined in a folder of links.
pub(super) fn find(nvrtc: &Path) -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).map(PathBuf::from);
    let others = named("CUDA_HOME").into_iter().chain(toolkits());
    search(named("CUDA_PATH"), nvrtc, others)
}

/// Searches the toolkit that the user named, that of the library, and others, in this order.
fn search(
    named: Option<PathBuf>,
    nvrtc: &Path,
    others: impl IntoIterator<Item = PathBuf>,
) -> Option<PathBuf> {
    // From …/lib/libnvrtc.so.13 to …/include, also above the folder of an architecture.
    let toolkit = nvrtc.ancestors().skip(2).take(2).map(PathBuf::from);
    let roots = named.into_iter().chain(toolkit).chain(others);
    let complete = roots.map(|root| root.join("include")).find(|folder| is_complete(&[folder]));
    complete.or_else(|| {
        let packages = nvrtc.ancestors().nth(3)?;
        let parts = ["cuda_runtime", "cuda_nvcc", "cuda_cccl", "cuda_crt"];
        let parts = parts.map(|part| packages.join(part).join("include"));
        let parts: Vec<&Path> =
            parts.iter().map(PathBuf::as_path).filter(|part| part.is_dir()).collect();
        is_complete(&parts).then(|| join(&parts).ok()).flatten()
    })
}

/// Sets `CUDA_PATH` such that CubeCL, which looks in its `include`, uses the headers of this
/// folder.
pub(super) fn announce(headers: &Path) {
    let root = headers.parent().unwrap_or(headers);
    if std::env::var_os("CUDA_PATH").is_none_or(|path| Path::new(&path) != root) {
        // SAFETY: Rust's own accesses to the environment are serialised. Detection runs before any
        // thread of a GPU backend starts, and no C code that the lab calls elsewhere reads it.
        unsafe { std::env::set_var("CUDA_PATH", root) };
    }
}

/// Returns whether these folders together have every required header.
fn is_complete(folders: &[impl AsRef<Path>]) -> bool {
    let has = |header: &&str| {
        let places = folders.iter().map(AsRef::as_ref);
        places
            .flat_map(|folder| [folder.join(header), folder.join("cccl").join(header)])
            .any(|path| path.exists())
    };
    REQUIRED.iter().all(|header| has(&header))
}

/// Creates a folder with links to all files of these folders, in the user's cache. Its name
/// depends on their names, so other versions of the packages in the same place have another
/// folder.
fn join(parts: &[&Path]) -> io::Result<PathBuf> {
    let mut links = BTreeMap::new();
    for part in parts {
        add_links(part, Path::new(""), &mut links)?;
    }
    let mut hasher = DefaultHasher::new();
    links.hash(&mut hasher);
    let cache = user_cache();
    let root = cache.join(format!("cuda-headers-{:016x}", hasher.finish()));
    let joined = root.join("include");
    if is_complete(&[&joined]) {
        return Ok(joined);
    }
    // Made under another name first, since another process may be doing the same.
    let draft = cache.join(format!("cuda-headers-draft-{}", std::process::id()));
    for (link, target) in &links {
        let link = draft.join("include").join(link);
        fs::create_dir_all(link.parent().unwrap_or(&draft))?;
        symlink(target, link)?;
    }
    if fs::rename(&draft, &root).is_err() {
        // Another process was faster, or an earlier folder lost its targets.
        fs::remove_dir_all(&root)?;
        fs::rename(&draft, &root)?;
    }
    Ok(joined)
}

/// Adds the files below `from` as links below `to`, with their targets. The first file of a name
/// stays.
fn add_links(from: &Path, to: &Path, links: &mut BTreeMap<PathBuf, PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let link = to.join(entry.file_name());
        match entry.path() {
            folder if folder.is_dir() => add_links(&folder, &link, links)?,
            file => drop(links.entry(link).or_insert(file)),
        }
    }
    Ok(())
}

/// Returns the folders `nvidia` among the Python packages of the active environment and of the
/// user.
pub(super) fn python_packages() -> Vec<PathBuf> {
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(std::env::var_os);
    let user = std::env::var_os("HOME").map(|home| Path::new(&home).join(".local"));
    let roots = environments.map(PathBuf::from).chain(user);
    let is_python = |name: &OsStr| name.to_string_lossy().starts_with("python3");
    let versions = roots.flat_map(|root| folders(&root.join("lib"), is_python));
    let packages = versions.map(|version| version.join("site-packages/nvidia"));
    packages.filter(|packages| packages.is_dir()).collect()
}

/// Returns the folders where toolkits usually are; those of the distribution last.
pub(super) fn toolkits() -> Vec<PathBuf> {
    let versioned = |name: &OsStr| name.to_string_lossy().starts_with("cuda-");
    let mut versions = folders(Path::new("/usr/local"), versioned);
    versions.sort();
    versions.reverse();
    let first = [PathBuf::from("/usr/local/cuda"), PathBuf::from("/opt/cuda")];
    let all = first.into_iter().chain(versions).chain([PathBuf::from("/usr")]);
    all.filter(|root| root.is_dir()).collect()
}

/// Returns the folders in `parent` whose name `is_wanted` accepts.
fn folders(parent: &Path, is_wanted: impl Fn(&OsStr) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| is_wanted(&entry.file_name()));
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_headers(headers: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for header in headers {
            let path = folder.path().join(header);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, header).unwrap();
        }
        folder
    }

    #[test]
    fn headers_in_parts_are_found_next_to_the_compiler_and_joined() {
        let lib = "cuda_nvrtc/lib/libnvrtc.so.12";
        let packages = with_headers(&[
            lib,
            "cuda_runtime/include/cuda_fp16.h",
            "cuda_runtime/include/crt/host_defines.h",
            "cuda_nvcc/include/crt/mma.h",
            "cuda_cccl/include/cuda/barrier",
            "cuda_cccl/include/nv/target",
        ]);
        let headers = search(None, &packages.path().join(lib), []).expect("found");
        assert!(is_complete(&[&headers]), "{headers:?}");
        assert!(headers.join("crt/host_defines.h").exists());
        assert_eq!(
            fs::read_to_string(headers.join("crt/mma.h")).unwrap(),
            "cuda_nvcc/include/crt/mma.h"
        );
        let again = search(None, &packages.path().join(lib), []);
        assert_eq!(again, Some(headers.clone()), "made once");
        // An update of a package in its place brings a header that the first version lacked.
        fs::write(packages.path().join("cuda_runtime/include/cuda_fp8.h"), "new").unwrap();
        let updated = search(None, &packages.path().join(lib), []).expect("found");
        assert!(updated.join("cuda_fp8.h").exists(), "{updated:?}");
        for made in [headers, updated] {
            fs::remove_dir_all(made.parent().unwrap()).unwrap();
        }
        // Without one part nothing is complete.
        fs::remove_dir_all(packages.path().join("cuda_nvcc")).unwrap();
        let parts = ["cuda_runtime", "cuda_cccl"].map(|p| packages.path().join(p).join("include"));
        assert!(!is_complete(&parts));
    }

    #[test]
    fn headers_of_one_folder_are_found_above_the_library() {
        let all = [
            "include/cuda_fp16.h",
            "include/crt/mma.h",
            "include/cccl/cuda/barrier",
            "include/cccl/nv/target",
            "lib/libnvrtc.so.13",
        ];
        let root = with_headers(&all);
        let found = search(None, &root.path().join("lib/libnvrtc.so.13"), []);
        assert_eq!(found, Some(root.path().join("include")));
    }
}
