//! Files that never end, give nothing, or unpack to far more than memory holds.

use epsilab::data::{ImageOptions, TextOptions};

use super::*;

/// A packed file: this text, then so many mebibytes of the digit 0.
fn bomb(start: &str, mebibytes: usize) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(start.as_bytes()).unwrap();
    (0..mebibytes).for_each(|_| out.write_all(&[b'0'; 1 << 20]).unwrap());
    out.finish().unwrap()
}

#[test]
fn a_line_without_end_is_not_kept_in_memory() {
    let files = folder(&[
        ("table.csv.gz", bomb("x,y\n1,a\n2,b\n3,", 20)),
        ("head.csv.gz", bomb("x,", 20)),
        ("quote.csv", format!("x,y\n1,a\n2,\"{}", "b\n".repeat(9 << 20)).into()),
        ("train.csv.gz", bomb("1,a,", 20)),
    ]);
    assert!(fs::metadata(files.path().join("table.csv.gz")).unwrap().len() < 200_000);
    let (corrupt, options) = (ErrorKind::CorruptData, TextOptions::default());
    let text = ["a record of more than 16,777,216 bytes", "every quote is closed"];
    let at = |name: &str| files.path().join(name);
    for name in ["table.csv.gz", "head.csv.gz", "quote.csv"] {
        refused(data::csv(at(name), "y"), corrupt, &[&text[..], &[name]].concat());
        refused(data::text_csv(at(name), "y", &["x"], &options), corrupt, &text);
    }
    refused(data::ag_news_in(files.path(), &options), corrupt, &text);
}

#[test]
fn an_idx_file_that_announces_too_much_is_not_unpacked() {
    let header: Vec<u8> =
        [0x803u32, 3 << 20, 32, 32].iter().flat_map(|n| n.to_be_bytes()).collect();
    let files = folder(&[("x", gzip(&header)), ("y", Vec::new())]);
    let opened = data::idx(files.path().join("x"), files.path().join("y"));
    let text = ["3145728 x 32 x 32 bytes", "more than the limit of 2,147,483,648 bytes"];
    refused(opened, ErrorKind::CorruptData, &text);
}

#[test]
fn texts_that_become_too_many_numbers_are_refused() {
    let texts = vec![""; 1 << 16];
    let options = TextOptions::default().length(40_000);
    let made = data::from_texts(&texts, vec![0; 1 << 16], 2, &options);
    refused(made, ErrorKind::Setting, &["length = 40000", "65,536 texts"]);
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_are_refused_instead_of_waited_for() {
    use crate::support::process::in_time;
    use std::os::unix::ffi::OsStrExt;
    let files = folder(&[("y", Vec::new())]);
    let image = include_bytes!("../../data/images/grey.jpg");
    for class in ["train/a", "train/b"] {
        fs::create_dir_all(files.path().join(class)).unwrap();
        fs::write(files.path().join(class).join("1.jpg"), image).unwrap();
    }
    let pipe = |name: &str| {
        let path = files.path().join(name);
        let text = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: a string that ends in zero, read during the call only.
        assert_eq!(unsafe { libc::mkfifo(text.as_ptr(), 0o600) }, 0);
        path
    };
    let (image, table) = (pipe("train/a/2.png"), pipe("table.csv"));
    let corrupt = ErrorKind::CorruptData;
    let root = files.path().to_path_buf();
    let opened = in_time(move || data::image_folder(root, &ImageOptions::size(4)));
    refused(opened, corrupt, &["2.png", "not a regular file"]);
    fs::remove_file(image).unwrap();
    let folder = data::image_folder(files.path(), &ImageOptions::size(4)).unwrap();
    fs::remove_file(files.path().join("train/a/1.jpg")).unwrap();
    pipe("train/a/1.jpg");
    refused(in_time(move || folder.in_memory()), corrupt, &["1.jpg", "not a regular file"]);

    type Read = fn(PathBuf) -> Result<Dataset>;
    let readers: [Read; 3] = [
        |path| data::csv(path, "y"),
        |path| data::text_csv(path, "y", &["x"], &TextOptions::default()),
        |path| data::idx(&path, &path),
    ];
    for read in readers {
        for path in [table.clone(), "/dev/zero".into()] {
            let opened = in_time(move || read(path));
            refused(opened, corrupt, &["not a regular file", "save its data"]);
        }
    }
}
