//! Tar shards in the layout of WebDataset.

use epsilab::data::ImageOptions;
use tar::{Builder, EntryType, Header};

use super::*;

const COLOUR: &[u8] = include_bytes!("../../data/images/colour.jpg");
const GREY: &[u8] = include_bytes!("../../data/images/grey.jpg");
const LOSSY: &[u8] = include_bytes!("../../data/images/lossy.webp");

/// A grey PNG image of one value.
fn flat(value: u8) -> Vec<u8> {
    let image = image::GrayImage::from_pixel(4, 4, image::Luma([value]));
    let mut out = std::io::Cursor::new(Vec::new());
    image.write_to(&mut out, image::ImageFormat::Png).unwrap();
    out.into_inner()
}

fn header(length: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_size(length);
    header.set_mode(0o644);
    header
}

/// A shard with these members.
fn shard<N: AsRef<str>, B: AsRef<[u8]>>(members: &[(N, B)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (name, bytes) in members {
        let (name, bytes) = (name.as_ref(), bytes.as_ref());
        builder.append_data(&mut header(bytes.len() as u64), name, bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

/// Two samples of two classes.
fn two_members() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("a.png", flat(10)),
        ("a.cls", b"0".to_vec()),
        ("b.cls", b" 1\n".to_vec()),
        ("b.png", flat(20)),
    ]
}

/// The two samples, and members that come after them.
fn two_members_and<'a>(more: &[(&'a str, &[u8])]) -> Vec<u8> {
    let more = more.iter().map(|(name, bytes)| (*name, bytes.to_vec()));
    let all: Vec<(&'a str, Vec<u8>)> = two_members().into_iter().chain(more).collect();
    shard(&all)
}

/// The two samples, and a member that a program for archives would not write.
fn two_and_raw(header: &mut Header, bytes: &[u8]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    header.set_cksum();
    builder.append(header, bytes).unwrap();
    for (name, bytes) in two_members() {
        builder.append_data(&mut self::header(bytes.len() as u64), name, &bytes[..]).unwrap();
    }
    builder.into_inner().unwrap()
}

fn options() -> ImageOptions {
    ImageOptions::size(2).grey().scaled(0.0, 1.0 / 255.0)
}

/// Opens a folder with one shard.
fn opened(bytes: &[u8]) -> Result<Dataset> {
    let folder = folder(&[("s.tar", bytes.to_vec())]);
    data::tar_shards(folder.path(), &options())
}

fn all_features(part: &data::Examples) -> Vec<f32> {
    let mut x = Vec::new();
    part.gather(&(0..part.len() as u32).collect::<Vec<_>>(), &mut x).unwrap();
    x
}

#[test]
fn shards_and_a_folder_of_the_same_images_share_their_ledger_and_their_features() {
    let images = [flat(1), flat(2), COLOUR.to_vec(), GREY.to_vec(), LOSSY.to_vec()];
    let root = tempfile::tempdir().unwrap();
    for (class, of) in [("ant", &images[..2]), ("bee", &images[2..])] {
        fs::create_dir_all(root.path().join(class)).unwrap();
        for (i, image) in of.iter().enumerate() {
            let ending = if image == LOSSY { "webp" } else { "jpg" };
            fs::write(root.path().join(class).join(format!("{i}.{ending}")), image).unwrap();
        }
    }
    let tree = data::image_folder(root.path(), &options()).unwrap();
    let member = |i: usize, name: &str| (name.to_owned(), images[i].clone());
    let label = |name: &str, class: u8| (name.to_owned(), vec![b'0' + class]);
    let first = shard(&[
        member(4, "x/deep/0001.webp"),
        label("x/deep/0001.cls", 1),
        member(0, "./two.png"),
        ("two.json".to_owned(), b"{}".to_vec()),
        label("two.cls", 0),
    ]);
    let second = shard(&[
        label("two.cls", 1),
        member(2, "two.jpg"),
        member(1, "one.PNG"),
        label("one.cls", 0),
        member(3, "k.jpeg"),
        label("k.cls", 1),
        ("k.seg.png".to_owned(), b"?".to_vec()),
        (".DS_Store".to_owned(), Vec::new()),
        ("README".to_owned(), Vec::new()),
    ]);
    let names = b"ant\nbee\n".to_vec();
    let files = [("b.tar", second), ("a.tar", first), ("classes.txt", names), ("n.md", vec![])];
    let shards = folder(&files);
    let shards = data::tar_shards(shards.path(), &options()).unwrap();
    assert_eq!(shards.origin(), tree.origin());
    assert_eq!(shards.class_names(), tree.class_names());
    // Shards by name, then images by position.
    let order = [4, 0, 2, 1, 3];
    let expected: Vec<f32> =
        order.iter().flat_map(|&i| all_features(tree.train())[4 * i..][..4].to_vec()).collect();
    assert_eq!(all_features(shards.train()), expected);
    assert_eq!(shards.train().labels(), [1, 0, 1, 0, 1]);
    for part in ["2 shards", "2x2 pixels", "4 members that are neither", ".split(0.8, 7)"] {
        assert!(shards.source().contains(part), "`{part}` is not in: {}", shards.source());
    }
    // A part depends on the contents alone.
    let split = |data: &Dataset| {
        let parts = data.split(0.5, 3).unwrap();
        (parts.train().len(), parts.origin().to_owned())
    };
    assert_eq!(split(&shards), split(&tree));
}

#[test]
fn training_and_test_shards_are_found_by_folder_or_by_name() {
    let sample = |value: u8| shard(&[("a.png", flat(value)), ("a.cls", vec![b'0' + value % 2])]);
    let open = |files: &[&str]| {
        let root = tempfile::tempdir().unwrap();
        for (i, name) in files.iter().enumerate() {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, sample(i as u8)).unwrap();
        }
        data::tar_shards(root.path(), &options())
    };
    for (files, train, test, found) in [
        (&["0.tar", "1.TAR"][..], 2, 0, "2 shards, the middle"),
        (&["train-0.tar", "train-1.tar"], 2, 0, "2 shards, the middle"),
        (&["train/0.tar", "train/1.tar"], 2, 0, "2 shards in train/,"),
        (&["train/0.tar", "train/1.tar", "val/0.tar"], 2, 1, "1 shard in train/ and val/"),
        (&["train/0.tar", "train/1.tar", "val/0.tar", "test/0.tar"], 2, 1, "train/ and test/"),
        (
            &["train0.tar", "train1.tar", "val0.tar"],
            2,
            1,
            "2 shards named train and 1 shard named val",
        ),
        (&["m-train-0.tar", "m-train-1.tar", "m-validation-0.tar"], 2, 1, "named val"),
        (&["train-0.tar", "train-1.tar", "val.tar", "test.tar"], 2, 1, "named val were not read"),
    ] {
        let data = open(files).unwrap();
        assert_eq!((data.train().len(), data.test().len()), (train, test), "{files:?}");
        assert!(data.source().contains(found), "{found}: {}", data.source());
        assert_eq!(data.source().contains(".split(0.8, 7)"), test == 0, "{}", data.source());
    }
    let (corrupt, missing) = (ErrorKind::CorruptData, ErrorKind::MissingData);
    let open_which = "do not tell which";
    for files in [&["0.tar", "val.tar"][..], &["test.tar"], &["train-test.tar", "train.tar"]] {
        refused(open(files), corrupt, &[open_which, "into train/ and test/"]);
    }
    refused(open(&["0.csv"]), missing, &["has no tar shards", "ends in .tar"]);
    refused(open(&["val/0.tar"]), missing, &["has no folder train/"]);
    refused(open(&["train/0.md"]), missing, &["train has no tar shards"]);
    refused(data::tar_shards("/nowhere", &options()), missing, &["/nowhere is missing"]);
    refused(open(&["0.tar", "1.tar.gz"]), corrupt, &["1.tar.gz", "compressed", "gunzip"]);

    // One shard by its path, with the classes beside it.
    let files = folder(&[("s.tar", shard(&two_members())), ("classes.txt", b"x\ny\nz".to_vec())]);
    let data = data::tar_shards(files.path().join("s.tar"), &options()).unwrap();
    assert_eq!((data.name(), data.train().len()), ("s", 2));
    assert_eq!(data.class_names(), ["x", "y", "z"]);
}

#[test]
fn a_shard_cut_short_anywhere_is_refused_and_never_read_in_part() {
    let whole = two_members_and(&[("c.jpg", COLOUR), ("c.cls", b"1")]);
    let origin = opened(&whole).unwrap().origin().to_owned();
    let end = whole.len() - whole.iter().rev().position(|&byte| byte != 0).unwrap();
    let end = end.next_multiple_of(512);
    let lengths = (0..whole.len()).filter(|length| length % 37 == 0 || (length + 1) % 512 <= 2);
    let mut refused_lengths = 0;
    for length in lengths {
        let files = folder(&[("s.tar", whole[..length].to_vec())]);
        match data::tar_shards(files.path(), &options()) {
            // Only zeros behind the end are missing.
            Ok(data) => assert!(length >= end + 1024 && data.origin() == origin, "{length}"),
            Err(error) => {
                assert!(length < end + 1024, "{length}: {error}");
                assert_eq!(error.kind(), ErrorKind::CorruptData, "{length}: {error}");
                assert!(error.to_string().contains("s.tar"), "{error}");
                refused_lengths += 1;
            }
        }
    }
    assert!(refused_lengths > 100, "{refused_lengths}");
    for (length, text) in [
        (530, "its member `a.png` has"),
        (end - 1024, "no end marker"),
        (end + 512, "no end marker"),
    ] {
        refused(opened(&whole[..length]), ErrorKind::CorruptData, &["truncated", text]);
    }
}

#[test]
fn members_that_are_no_plain_files_are_refused() {
    let kind = |kind: EntryType, name: &str| {
        let mut header = header(0);
        header.set_path(name).unwrap();
        header.set_entry_type(kind);
        header.set_link_name("a.png").unwrap();
        two_and_raw(&mut header, &[])
    };
    let named = |name: &[u8]| {
        let mut header = header(1);
        header.as_mut_bytes()[..name.len()].copy_from_slice(name);
        two_and_raw(&mut header, b"1")
    };
    let mut huge = header(0);
    huge.set_path("c.png").unwrap();
    huge.as_mut_bytes()[124..136]
        .copy_from_slice(&[0x80, 0, 0, 0, 0x7f, 255, 255, 255, 255, 255, 255, 0]);
    let huge = two_and_raw(&mut huge, &[]);
    let extended = |key: &str, value: &str| {
        let mut builder = Builder::new(Vec::new());
        builder.append_pax_extensions([(key, value.as_bytes())]).unwrap();
        builder.append_data(&mut header(1), "c.cls", &b"1"[..]).unwrap();
        builder.into_inner().unwrap()
    };
    let broken = {
        let mut header = header(9);
        header.set_path("PaxHeaders/c").unwrap();
        header.set_entry_type(EntryType::XHeader);
        two_and_raw(&mut header, b"99 path=x")
    };
    let long_header = {
        let mut header = header(1 << 40);
        header.set_path("././@LongLink").unwrap();
        header.set_entry_type(EntryType::GNULongName);
        two_and_raw(&mut header, &[])
    };
    let long_name = {
        let mut header = header(1 << 17);
        header.set_path("././@LongLink").unwrap();
        header.set_entry_type(EntryType::GNULongName);
        two_and_raw(&mut header, &vec![b'x'; 1 << 17])
    };
    let cases: [(&str, Vec<u8>, &[&str]); 20] = [
        (
            "symbolic link",
            kind(EntryType::Symlink, "c.png"),
            &["`c.png` is a link", "--dereference"],
        ),
        ("hard link", kind(EntryType::Link, "c.png"), &["`c.png` is a link", "--hard-dereference"]),
        ("pipe", kind(EntryType::Fifo, "c.png"), &["neither a file nor a folder"]),
        ("device", kind(EntryType::Char, "c.png"), &["neither a file nor a folder"]),
        ("sparse", kind(EntryType::GNUSparse, "c.png"), &["a sparse file"]),
        ("sparse in pax", extended("GNU.sparse.major", "1"), &["`c.cls` is a sparse file"]),
        ("two sizes", extended("size", "2"), &["a file with two sizes"]),
        ("broken pax", broken, &["a damaged extended header"]),
        ("absolute", named(b"/etc/c.cls"), &["/etc/c.cls", "leads outside"]),
        ("parent", named(b"x/../../c.cls"), &["x/../../c.cls", "leads outside"]),
        ("parent in pax", extended("path", "../c.cls"), &["../c.cls", "leads outside"]),
        ("not UTF-8", named(b"\xff.cls"), &["not UTF-8"]),
        ("huge", huge, &["truncated", "c.png"]),
        ("long header", long_header, &["truncated"]),
        ("long name", long_name, &["an extended header of 131,072 bytes"]),
        (
            "nested",
            two_members_and(&[("c.tar", b"1")]),
            &["`c.tar` is an archive inside", "of their own"],
        ),
        ("nested, packed", two_members_and(&[("c.tar.gz", b"1")]), &["an archive inside"]),
        ("packed", gzip(&shard(&two_members())), &["a compressed archive", "gunzip"]),
        (
            "two archives",
            [shard(&two_members()), shard(&two_members())].concat(),
            &["bytes after the end"],
        ),
        ("an image", COLOUR.to_vec(), &["not a tar archive"]),
    ];
    for (name, bytes, parts) in cases {
        println!("{name}");
        refused(opened(&bytes), ErrorKind::CorruptData, parts);
    }
    // A damaged header is found by its checksum.
    let mut damaged = shard(&two_members());
    damaged[1024 + 3] ^= 1;
    refused(opened(&damaged), ErrorKind::CorruptData, &["damaged one, from byte 1,024 on"]);
    assert!(opened(&kind(EntryType::Directory, "folder/")).is_ok());
}

#[test]
fn each_image_has_one_label_in_range() {
    let with = |more: &[(&str, &[u8])]| opened(&two_members_and(more));
    let image = flat(3);
    let no_number = ["", "x", "-1", "1.0", "0x1", "65536", "99999999999999999999", "1 1"];
    for text in no_number {
        let parts = ["`c.cls` is no class number", "from 0 to 65,535"];
        refused(
            with(&[("c.png", &image), ("c.cls", text.as_bytes())]),
            ErrorKind::CorruptData,
            &parts,
        );
    }
    let long = [b"1".as_slice(), &[b' '; 100]].concat();
    let corrupt = ErrorKind::CorruptData;
    refused(with(&[("c.png", &image), ("c.cls", &long)]), corrupt, &["no class number"]);
    refused(with(&[("c.png", &image)]), corrupt, &["`c` has an image and no label", "`c.cls`"]);
    refused(with(&[("x/c.cls", b"1")]), corrupt, &["`x/c` has a label and no image"]);
    refused(with(&[("a.jpg", &image)]), corrupt, &["the key `a` has two images"]);
    refused(with(&[("./a.png", &image)]), corrupt, &["the key `a` has two images"]);
    refused(with(&[("a.cls", b"0")]), corrupt, &["the key `a` has two labels"]);
    let damaged = with(&[("c.png", &image[..30]), ("c.cls", b"1")]);
    refused(damaged, corrupt, &["s.tar: c.png", "PNG", "sound JPEG"]);
    refused(
        opened(&shard(&two_members()[..2])),
        corrupt,
        &["all labels are 0", "2 to 65,536 classes"],
    );
    refused(
        opened(&shard::<&str, &[u8]>(&[])),
        ErrorKind::MissingData,
        &["no shard of the training"],
    );

    let named = |names: &[u8], test: u8| {
        let root = folder(&[("classes.txt", names.to_vec()), ("train.tar", shard(&two_members()))]);
        let sample = shard(&[("t.png", flat(4)), ("t.cls", vec![b'0' + test])]);
        fs::write(root.path().join("test.tar"), sample).unwrap();
        data::tar_shards(root.path(), &options())
    };
    assert_eq!(named(b"x\ny\nz\n", 2).unwrap().classes(), 3);
    let parts = ["test.tar: t.png", "the label is 3, but classes are numbered from 0 to 2"];
    refused(named(b"x\ny\nz\n", 3), corrupt, &parts);
    refused(named(b"x\ny\nx\n", 1), corrupt, &["classes.txt", "two classes of the name `x`"]);
    refused(named(b"x\n\ny\n", 1), corrupt, &["a class without a name"]);
    refused(named(b"x\n", 1), corrupt, &["1 line"]);
    refused(named(b"x\n\xff\n", 1), corrupt, &["not UTF-8"]);
}

#[test]
fn long_names_are_read() {
    let long = format!("{}/{}", "x".repeat(120), "y".repeat(120));
    let mut builder = Builder::new(Vec::new());
    for (ending, bytes) in [("png", flat(9)), ("cls", b"1".to_vec())] {
        // By an extension of GNU, and by one of POSIX.
        let name = format!("{long}.{ending}");
        builder.append_data(&mut header(bytes.len() as u64), &name, &bytes[..]).unwrap();
        let name = format!("{long}.2.{ending}").replace(".2.", "-2.");
        let xattr: (&str, &[u8]) = ("SCHILY.xattr.user.x", b"\n\xff=\n9 path=y\n");
        builder.append_pax_extensions([xattr, ("path", name.as_bytes())]).unwrap();
        builder.append_data(&mut header(bytes.len() as u64), "short", &bytes[..]).unwrap();
    }
    for (name, bytes) in two_members() {
        builder.append_data(&mut header(bytes.len() as u64), name, &bytes[..]).unwrap();
    }
    let data = opened(&builder.into_inner().unwrap()).unwrap();
    assert_eq!(data.train().labels(), [1, 1, 0, 1]);
}

#[test]
fn a_shard_that_changes_after_it_was_opened_is_noticed() {
    let files = folder(&[("s.tar", shard(&two_members()))]);
    let (path, bytes) = (files.path().join("s.tar"), shard(&two_members()));
    let data = data::tar_shards(files.path(), &options()).unwrap();
    data.check_files().unwrap();
    let corrupt = ErrorKind::CorruptData;
    let mut other = bytes.clone();
    other[512 + 40] ^= 1;
    fs::write(&path, &other).unwrap();
    refused(data.in_memory(), corrupt, &["s.tar: a.png", "has changed"]);
    let error = data.check_files().unwrap_err();
    assert!(error.to_string().contains("a.png") && !error.to_string().contains("b.png"), "{error}");
    fs::write(&path, &bytes[..700]).unwrap();
    let error = data.check_files().unwrap_err();
    assert!(error.to_string().contains("s.tar: b.png: the file has changed"), "{error}");
    fs::remove_file(&path).unwrap();
    assert_eq!(data.check_files().unwrap_err().kind(), ErrorKind::MissingData);
    // A label is read once.
    let mut other = bytes.clone();
    let label = other.windows(4).position(|four| four == b" 1\n\0").unwrap();
    other[label + 1] = b'0';
    fs::write(&path, &other).unwrap();
    assert_eq!(data.in_memory().unwrap().train().labels(), [0, 1]);
}
