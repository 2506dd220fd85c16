//! Folders of images. The JPEG and WebP files were drawn for these tests: 48x32 pixels, the left
//! half red (220, 30, 30), the right half blue (30, 30, 220).

use epsilab::data::ImageOptions;

use super::*;

const COLOUR: &[u8] = include_bytes!("../../data/images/colour.jpg");
const PROGRESSIVE: &[u8] = include_bytes!("../../data/images/progressive.jpg");
const GREY: &[u8] = include_bytes!("../../data/images/grey.jpg");
const CMYK: &[u8] = include_bytes!("../../data/images/cmyk.jpg");
const LOSSY: &[u8] = include_bytes!("../../data/images/lossy.webp");
const LOSSLESS: &[u8] = include_bytes!("../../data/images/lossless.webp");
const ALPHA: &[u8] = include_bytes!("../../data/images/alpha.webp");
const ANIMATED: &[u8] = include_bytes!("../../data/images/animated.webp");

/// A PNG image of these pixels.
fn png(width: u32, kind: png::ColorType, depth: png::BitDepth, pixels: &[u8]) -> Vec<u8> {
    let samples = kind.samples() * if depth == png::BitDepth::Sixteen { 2 } else { 1 };
    let mut out = Vec::new();
    let height = pixels.len() as u32 / width / samples as u32;
    let mut encoder = png::Encoder::new(&mut out, width, height);
    encoder.set_color(kind);
    encoder.set_depth(depth);
    encoder.write_header().unwrap().write_image_data(pixels).unwrap();
    out
}

/// A grey image of one value.
fn flat(value: u8) -> Vec<u8> {
    png(4, png::ColorType::Grayscale, png::BitDepth::Eight, &[value; 16])
}

/// A folder of images, from the path of each inside it.
fn tree(files: &[(&str, Vec<u8>)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    root
}

fn small() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("train/cat/2.png", flat(2)),
        ("train/cat/1.png", flat(1)),
        ("train/ant/3.PNG", flat(3)),
        ("train/ant/notes.txt", b"?".to_vec()),
        ("train/ant/.hidden.png", b"?".to_vec()),
        ("test/cat/4.png", flat(4)),
    ]
}

fn bytes() -> ImageOptions {
    ImageOptions::size(2).grey().scaled(0.0, 1.0 / 255.0)
}

#[track_caller]
fn assert_near(found: &[f32], expected: &[f32], within: f32) {
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= within;
    let all = found.len() == expected.len() && found.iter().zip(expected).all(close);
    assert!(all, "{found:?} is not {expected:?}");
}

fn all_features(part: &data::Examples) -> Vec<f32> {
    let mut x = Vec::new();
    part.gather(&(0..part.len() as u32).collect::<Vec<_>>(), &mut x).unwrap();
    x
}

#[test]
fn a_folder_becomes_classes_and_examples_in_order() {
    let root = tree(&small());
    let pets = data::image_folder(root.path(), &bytes()).unwrap();
    let line = "3 training and 1 test examples of shape 1x2x2, 2 classes";
    assert!(pets.to_string().ends_with(line), "{pets}");
    assert_eq!(pets.class_names(), ["ant", "cat"]);
    assert_eq!((pets.train().labels(), pets.test().labels()), (&[0, 1, 1][..], &[1][..]));
    assert!(!pets.train().is_in_memory());
    let firsts: Vec<f32> = all_features(pets.train()).chunks(4).map(|x| x[3].round()).collect();
    assert_eq!(firsts, [3.0, 1.0, 2.0]);
    for part in ["train/ and test/", "2x2 pixels", "1 entry that is no JPEG, PNG or WebP"] {
        assert!(pets.source().contains(part), "`{part}` is not in: {}", pets.source());
    }

    let mut some = vec![7.0];
    pets.train().gather(&[2, 0, 2], &mut some).unwrap();
    assert_near(&some, &[[7.0].as_slice(), &[2.0; 4], &[3.0; 4], &[2.0; 4]].concat(), 1e-4);
    let error = pets.train().gather(&[0, 3], &mut some).unwrap_err();
    assert!(error.to_string().starts_with("example number = 3"), "{error}");
    assert_eq!(some.len(), 13);
}

#[test]
fn parts_of_a_folder_behave_like_parts_in_memory() {
    let root = tree(&small());
    let lazy = data::image_folder(root.path(), &bytes()).unwrap();
    let loaded = lazy.in_memory().unwrap();
    assert_eq!(loaded.origin(), lazy.origin());
    type Cut = fn(&Dataset) -> Dataset;
    let cuts: [Cut; 4] = [
        |data| data.clone(),
        |data| data.split(0.5, 3).unwrap(),
        |data| data.limit(2, 0),
        |data| data.normalized(1.0, 2.0).unwrap().normalized(0.5, 0.25).unwrap(),
    ];
    for cut in cuts {
        let (a, b) = (cut(&lazy), cut(&loaded));
        for (a, b) in [(a.train(), b.train()), (a.test(), b.test())] {
            assert_eq!(a.labels(), b.labels());
            assert_near(&all_features(a), b.features_flat(), 1e-3);
        }
        assert_eq!(a.origin(), lazy.origin());
    }
}

#[test]
fn names_and_options_do_not_change_the_ledger_but_the_contents_do() {
    let root = tree(&small());
    let open = |options: &ImageOptions| data::image_folder(root.path(), options).unwrap();
    let first = open(&bytes());
    let larger = open(&ImageOptions::size(3));
    assert_eq!(first.origin(), larger.origin());
    assert_ne!(first.hash(), larger.hash());
    assert_ne!(first.hash(), first.normalized(0.0, 2.0).unwrap().hash());
    assert_eq!(first.hash(), open(&bytes()).hash());

    let train = root.path().join("train");
    fs::rename(train.join("cat/1.png"), train.join("ant/0.png")).unwrap();
    assert_eq!(open(&bytes()).origin(), first.origin());
    assert_ne!(open(&bytes()).hash(), first.hash());
    fs::write(train.join("ant/0.png"), flat(9)).unwrap();
    assert_ne!(open(&bytes()).origin(), first.origin());

    // The folder that was opened before no longer matches what its ledger names.
    let error = first.in_memory().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MissingData, "{error}");
    fs::write(train.join("cat/1.png"), flat(8)).unwrap();
    refused(first.in_memory(), ErrorKind::CorruptData, &["1.png", "has changed"]);
}

#[test]
fn class_folders_without_train_and_test_are_read_as_a_training_part() {
    let nested = tree(&[
        ("train/cat/1.png", flat(1)),
        ("train/cat/2.png", flat(2)),
        ("train/ant/3.png", flat(3)),
    ]);
    let plain = tree(&[("cat/1.png", flat(1)), ("cat/2.png", flat(2)), ("ant/3.png", flat(3))]);
    let open = |root: &Path| data::image_folder(root, &bytes()).unwrap();
    let (nested, plain) = (open(nested.path()), open(plain.path()));
    assert_eq!((plain.train().len(), plain.test().len(), plain.classes()), (3, 0, 2));
    assert_eq!((plain.hash(), plain.origin()), (nested.hash(), nested.origin()));
    for part in ["class folders, without train/ and test/", ".split(0.8, 7)"] {
        assert!(plain.source().contains(part), "{part} is not in: {}", plain.source());
    }
    assert!(nested.source().contains(": train/,"), "{}", nested.source());
    let parts = plain.split(0.5, 3).unwrap();
    assert_eq!(parts.train().len() + parts.test().len(), 3);
}

/// Computed by another program: SHA-256 of `epsilab images 1`, a line feed, and the sorted SHA-256
/// of the files. It names the ledger: it must never change.
#[test]
fn the_name_of_a_folders_ledger_is_fixed_for_ever() {
    let files = [("train/a/1.jpg", GREY), ("train/b/2.jpg", CMYK), ("train/b/1.jpg", COLOUR)];
    let root = tree(&files.map(|(name, bytes)| (name, bytes.to_vec())));
    let data = data::image_folder(root.path(), &bytes()).unwrap();
    assert_eq!(data.origin(), "895c591bc2143de74ab569c1bca952ab8fbb72828fb862be03cf72fc52b47dd4");
}

#[test]
fn png_of_every_kind_is_read() {
    use png::{BitDepth::Eight, BitDepth::Sixteen, ColorType};
    let cases = [
        (png(1, ColorType::Grayscale, Eight, &[50]), [50.0, 50.0, 50.0]),
        (png(1, ColorType::Grayscale, Sixteen, &[50, 7]), [50.0, 50.0, 50.0]),
        (png(1, ColorType::GrayscaleAlpha, Eight, &[50, 3]), [50.0, 50.0, 50.0]),
        (png(1, ColorType::Rgb, Eight, &[10, 20, 30]), [10.0, 20.0, 30.0]),
        (png(1, ColorType::Rgba, Eight, &[10, 20, 30, 99]), [10.0, 20.0, 30.0]),
        (png(1, ColorType::Rgb, Sixteen, &[10, 1, 20, 2, 30, 3]), [10.0, 20.0, 30.0]),
    ];
    for (image, colour) in cases {
        let root = tree(&[("train/a/0.png", image.clone()), ("train/b/0.png", image)]);
        let options = ImageOptions::size(1).scaled(0.0, 1.0 / 255.0);
        let read = data::image_folder(root.path(), &options).unwrap();
        assert_near(&all_features(read.train())[..3], &colour, 1e-3);
        let grey = data::image_folder(root.path(), &options.grey()).unwrap();
        let [r, g, b] = colour;
        assert_near(&all_features(grey.train())[..1], &[0.299 * r + 0.587 * g + 0.114 * b], 1e-3);
    }
}

#[test]
fn jpeg_and_webp_of_every_kind_are_read_whatever_the_ending() {
    let (red, blue) = ([220.0, 30.0, 30.0], [30.0, 30.0, 220.0]);
    for (image, red, blue) in [
        (COLOUR, red, blue),
        (PROGRESSIVE, red, blue),
        (CMYK, red, blue),
        (GREY, [87.0; 3], [52.0; 3]),
        (LOSSY, red, blue),
        (LOSSLESS, red, blue),
        (ALPHA, red, blue),
        // Its second image is green.
        (ANIMATED, red, blue),
    ] {
        let root = tree(&[("train/a/0.jpeg", image.into()), ("train/b/0.png", image.into())]);
        let options = ImageOptions::size(8).scaled(0.0, 1.0 / 255.0);
        let x = all_features(data::image_folder(root.path(), &options).unwrap().train());
        for channel in 0..3 {
            // Row 3; columns well inside the halves.
            let row = &x[channel * 64 + 24..][..8];
            assert_near(&[row[0], row[7]], &[red[channel], blue[channel]], 5.0);
        }
    }
}

/// A JPEG file with an orientation tag (EXIF).
fn with_orientation(image: &[u8], orientation: u8) -> Vec<u8> {
    let mut tag = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".to_vec();
    tag.extend([orientation, 0, 0, 0, 0, 0, 0]);
    let segment = [b"\xff\xe1\0\x22Exif\0\0", &tag[..]].concat();
    [&image[..2], &segment, &image[2..]].concat()
}

#[test]
fn images_are_turned_as_the_camera_says() {
    let (red, blue) = ([220.0, 30.0, 30.0], [30.0, 30.0, 220.0]);
    // The colour of the left, the right, the upper and the lower edge of the middle square.
    let mixed = [125.0, 30.0, 125.0];
    for (orientation, edges) in [
        (1, [red, blue, mixed, mixed]),
        (2, [blue, red, mixed, mixed]),
        (3, [blue, red, mixed, mixed]),
        (4, [red, blue, mixed, mixed]),
        (5, [mixed, mixed, red, blue]),
        (6, [mixed, mixed, red, blue]),
        (7, [mixed, mixed, blue, red]),
        (8, [mixed, mixed, blue, red]),
        (9, [red, blue, mixed, mixed]),
    ] {
        let image = with_orientation(COLOUR, orientation);
        let root = tree(&[("train/a/0.jpg", image.clone()), ("train/b/0.jpg", image)]);
        let options = ImageOptions::size(8).scaled(0.0, 1.0 / 255.0);
        let x = all_features(data::image_folder(root.path(), &options).unwrap().train());
        for channel in 0..3 {
            let at = |row: usize, column: usize| x[channel * 64 + row * 8 + column];
            let two = |a: f32, b: f32| (a + b) / 2.0;
            let found = [
                two(at(0, 0), at(7, 0)),
                two(at(0, 7), at(7, 7)),
                two(at(0, 0), at(0, 7)),
                two(at(7, 0), at(7, 7)),
            ];
            assert_near(&found, &edges.map(|edge| edge[channel]), 6.0);
        }
    }
}

#[test]
fn parts_have_the_names_that_people_give_them() {
    for (train, test) in [
        ("train", "val"),
        ("train", "valid"),
        ("Train", "Test"),
        ("TRAIN", "VALIDATION"),
        ("training", "testing"),
        ("Training", "Validation"),
    ] {
        let files = ["ant/1.png", "cat/1.png"].map(|file| {
            let (train, test) = (format!("{train}/{file}"), format!("{test}/{file}"));
            [(train, flat(1)), (test, flat(2))]
        });
        let files: Vec<_> = files.iter().flatten().map(|(n, b)| (n.as_str(), b.clone())).collect();
        let root = tree(&files);
        let pets = data::image_folder(root.path(), &bytes()).unwrap();
        assert_eq!((pets.train().len(), pets.test().len(), pets.classes()), (2, 2, 2), "{test}");
        assert!(all_features(pets.train()).iter().all(|x| x.round() == 1.0), "{train}");
        let found = format!(": {train}/ and {test}/,");
        assert!(pets.source().contains(&found), "{found}: {}", pets.source());
        assert_eq!(pets.notices(), [""; 0]);
    }
    // Several folders of one part.
    let and = |more: &[&'static str]| {
        let more: Vec<_> = more.iter().map(|name| (*name, flat(7))).collect();
        let root = tree(&[small(), more].concat());
        data::image_folder(root.path(), &bytes())
    };
    let both = and(&["valid/cat/1.png", "extra/cat/1.png", "Testing/1.png"]).unwrap();
    assert_eq!(both.test().len(), 1);
    for notice in [
        "The images of valid/ were not read: test/ is the test part.",
        "Folders beside train/ were not read: Testing/, extra/.",
        "test/ has no images of ant.",
    ] {
        assert!(both.notices().iter().any(|found| found == notice), "{notice} {both:?}");
        assert!(both.source().contains(notice), "{}", both.source());
    }
    let two = ["Train/", "train/", "may be its training part"];
    refused(and(&["Train/cat/1.png"]), ErrorKind::CorruptData, &two);
}

#[test]
fn a_test_part_without_classes_is_named_as_not_read() {
    let root = tree(&[
        ("train/cat/1.png", flat(1)),
        ("train/ant/1.png", flat(2)),
        ("test/1.png", flat(3)),
    ]);
    let pets = data::image_folder(root.path(), &bytes()).unwrap();
    assert!(pets.test().is_empty() && pets.source().contains(".split(0.8, 7)"));
    assert_eq!(pets.notices(), ["test/ was not read: it has no class folders."]);
}

#[test]
fn a_class_may_have_the_name_of_a_part() {
    let root = tree(&[("valid/1.png", flat(1)), ("invalid/1.png", flat(2))]);
    let checks = data::image_folder(root.path(), &bytes()).unwrap();
    assert_eq!(checks.class_names(), ["invalid", "valid"]);
    let missing = ErrorKind::MissingData;
    let nested = tree(&[("valid/cat/1.png", flat(1)), ("cat/1.png", flat(2))]);
    refused(data::image_folder(nested.path(), &bytes()), missing, &["has no folder train/"]);
    // Two parts without classes are no classes.
    let parts = tree(&[("Training/1.png", flat(1)), ("Testing/1.png", flat(2))]);
    refused(
        data::image_folder(parts.path(), &bytes()),
        ErrorKind::CorruptData,
        &["Training: 0 class folders"],
    );
}

#[test]
fn images_in_folders_inside_a_class_are_read_and_counted() {
    let nested = [
        ("cat/2021/spring/1.png", flat(3)),
        ("cat/2021/2.png", flat(4)),
        ("cat/1.png", flat(1)),
        ("ant/2020/1.png", flat(2)),
    ];
    let root = tree(&nested);
    let pets = data::image_folder(root.path(), &bytes()).unwrap();
    assert_eq!(pets.train().labels(), [0, 1, 1, 1]);
    let firsts: Vec<f32> = all_features(pets.train()).chunks(4).map(|x| x[0].round()).collect();
    assert_eq!(firsts, [2.0, 1.0, 4.0, 3.0]);
    let notice = "Read 3 images in folders inside classes: ant/2020 and 2 more.";
    assert_eq!(pets.notices(), [notice]);

    let with = |name: &'static str| {
        let root = tree(&[&nested[..], &[(name, flat(9))]].concat());
        refused(
            data::image_folder(root.path(), &bytes()),
            ErrorKind::CorruptData,
            &["a folder inside a class"],
        );
    };
    with("cat/Ant/1.png");
    with("cat/test/1.png");
    let parts = tree(&[("seg_train/cat/1.png", flat(1)), ("seg_test/cat/1.png", flat(2))]);
    refused(
        data::image_folder(parts.path(), &bytes()),
        ErrorKind::CorruptData,
        &["`seg_test` may be a class, or a part", "train/"],
    );
}

#[test]
fn what_systems_and_editors_leave_in_folders_is_skipped_and_counted() {
    let mut files = small();
    files.extend([
        ("__MACOSX/train/cat/1.png", flat(1)),
        ("train/__MACOSX/1.png", flat(1)),
        ("train/.DS_Store", Vec::new()),
        ("train/cat/._1.png", Vec::new()),
        ("train/cat/.ipynb_checkpoints/1-checkpoint.png", flat(1)),
        ("train/loose.png", flat(1)),
        ("test/cat/Thumbs.db", Vec::new()),
    ]);
    let root = tree(&files);
    let pets = data::image_folder(root.path(), &bytes()).unwrap();
    assert_eq!((pets.train().len(), pets.test().len(), pets.classes()), (3, 1, 2));
    let notice = "Skipped: 2 entries that are no JPEG, PNG or WebP, 1 image outside the class \
                  folders, 6 hidden entries (such as .DS_Store, __MACOSX).";
    assert_eq!(pets.notices().last().unwrap(), notice);
    assert_eq!(
        pets.origin(),
        data::image_folder(tree(&small()).path(), &bytes()).unwrap().origin()
    );
}

#[test]
fn the_middle_is_cut_out_and_resized_by_a_triangular_filter() {
    use png::{BitDepth::Eight, ColorType::Grayscale};
    // Six columns of 4 rows: the middle four hold 100 and 200 in turn, the margins 0.
    let row = [0, 100, 200, 100, 200, 0];
    let wide = png(6, Grayscale, Eight, &row.repeat(4));
    let tall: Vec<u8> = row.iter().flat_map(|&x| [x; 4]).collect();
    let tall = png(4, Grayscale, Eight, &tall);
    let root = tree(&[("train/a/0.png", wide), ("train/b/0.png", tall)]);
    let read = |side| {
        let options = ImageOptions::size(side).grey().scaled(0.0, 1.0 / 255.0);
        all_features(data::image_folder(root.path(), &options).unwrap().train())
    };
    let same = read(4);
    assert_near(&same[..4], &[100.0, 200.0, 100.0, 200.0], 1e-3);
    assert_near(&same[16..], &[[100.0; 4], [200.0; 4], [100.0; 4], [200.0; 4]].concat(), 1e-3);
    // Halved: triangles over four columns with weights 1/8, 3/8, 3/8, 1/8, without those beyond the
    // edge, and rounded: 250 / 1.75 and 275 / 1.75.
    assert_near(&read(2)[..4], &[143.0, 157.0, 143.0, 157.0], 1e-3);
    // Doubled: linear interpolation.
    assert_near(&read(8)[3..6], &[175.0, 125.0, 125.0], 1e-3);
}

#[test]
fn a_path_that_is_no_image_folder_is_refused_with_the_expected_layout() {
    let missing = ErrorKind::MissingData;
    let open = |root: &Path| data::image_folder(root, &bytes());
    refused(open(Path::new("/nowhere")), missing, &["/nowhere is missing", "train/<class>/"]);
    let untrained = tree(&[("cat/1.png", flat(1)), ("test/cat/1.png", flat(1))]);
    refused(open(untrained.path()), missing, &["has no folder train/", "train/<class>/"]);
    let loose = tree(&[("1.png", flat(1)), ("2.png", flat(2))]);
    refused(open(loose.path()), missing, &["has no class folders", "<class>/<image>.jpg"]);
    let one = tree(&[("cat/1.png", flat(1))]);
    refused(open(one.path()), ErrorKind::CorruptData, &["1 class folder\n"]);

    let corrupt = ErrorKind::CorruptData;
    let one = tree(&[("train/cat/1.png", flat(1))]);
    refused(open(one.path()), corrupt, &["/train: 1 class folder\n"]);
    let with = |name: &'static str, bytes: Vec<u8>| tree(&[small(), vec![(name, bytes)]].concat());
    let empty = with("train/dog/readme.txt", Vec::new());
    refused(open(empty.path()), corrupt, &["train/dog", "has no JPEG, PNG or WebP image"]);
    let unknown = with("test/dog/1.png", flat(1));
    refused(open(unknown.path()), corrupt, &["the class `dog` is not in train/"]);

    for (options, text) in [
        (ImageOptions::size(0), "size = 0"),
        (ImageOptions::size(5000), "size = 5000"),
        (ImageOptions::size(8).scaled(f32::NAN, 1.0), "mean = NaN"),
        (ImageOptions::size(8).scaled(0.0, 0.0), "std = 0"),
    ] {
        let error = data::image_folder(one.path(), &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting);
        assert!(error.to_string().starts_with(text), "{error}");
    }
}

#[test]
fn a_broken_file_is_reported_with_its_path() {
    let corrupt = ErrorKind::CorruptData;
    let good = flat(1);
    let mut huge = Vec::new();
    let mut writer = png::Encoder::new(&mut huge, 20_000, 30_000).write_header().unwrap();
    writer.write_chunk(png::chunk::IDAT, &[0; 8]).unwrap();
    drop(writer);
    // A canvas of 16,777,216 pixels along each side, around the image of a small one.
    let mut canvas = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0".to_vec();
    canvas.extend([0xff; 6]);
    canvas.extend(&LOSSLESS[12..]);
    let length = canvas.len() as u32 - 8;
    canvas[4..8].copy_from_slice(&length.to_le_bytes());
    let mut wide = COLOUR.to_vec();
    let at = wide.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    wide[at + 5..at + 9].copy_from_slice(&[0xff, 0xff, 0xff, 0xff]);
    let none = &["neither a JPEG nor a PNG nor a WebP"];
    let cases: [(&str, Vec<u8>, &[&str]); 9] = [
        ("train/cat/x.png", b"GIF89a".to_vec(), none),
        ("train/cat/x.png", Vec::new(), none),
        ("train/cat/x.webp", canvas, &["a damaged WebP image", "too large"]),
        ("train/cat/x.webp", LOSSY[..30].to_vec(), &["WebP"]),
        ("train/cat/x.jpg", wide, &["an image of 65535x65535 pixels", "at most"]),
        ("train/cat/x.png", good[..20].to_vec(), &["damaged PNG"]),
        ("train/cat/x.png", huge, &["an image of 20000x30000 pixels", "at most"]),
        ("train/cat/x.jpg", COLOUR[..100].to_vec(), &["damaged JPEG"]),
        ("test/cat/x.jpg", b"\xff\xd8\xff\xff".to_vec(), &["JPEG"]),
    ];
    for (name, bytes, parts) in cases {
        let root = tree(&[small(), vec![(name, bytes)]].concat());
        let opened = data::image_folder(root.path(), &self::bytes());
        let error = refused(opened, corrupt, parts);
        assert!(error.to_string().contains(&name[5..]), "{error}");
    }
}

#[test]
fn a_truncated_file_is_reported_when_the_folder_is_opened() {
    let good = flat(1);
    for (name, image) in [
        ("c.jpg", COLOUR),
        ("p.jpg", PROGRESSIVE),
        ("g.png", &good),
        ("s.webp", LOSSY),
        ("l.webp", LOSSLESS),
        ("a.webp", ALPHA),
    ] {
        for part in ["train", "test"] {
            let name = format!("{part}/cat/{name}");
            let root = tree(&[small(), vec![(name.as_str(), image.to_vec())]].concat());
            assert!(data::image_folder(root.path(), &bytes()).is_ok(), "{name}");
            for length in 0..image.len() {
                fs::write(root.path().join(&name), &image[..length]).unwrap();
                let opened = data::image_folder(root.path(), &bytes());
                let parts = [name.as_str(), "replace or remove this file"];
                refused(opened, ErrorKind::CorruptData, &parts);
            }
            // What comes after the end of an image does not matter.
            fs::write(root.path().join(&name), [image, &[0xff, 0xda, 7]].concat()).unwrap();
            let opened = data::image_folder(root.path(), &bytes());
            assert!(opened.is_ok() || name.ends_with("jpg"), "{name}");
        }
    }
}

/// A test part has other people in it, who have no ledger.
#[test]
fn a_folder_is_named_by_its_training_images() {
    let root = tree(&small());
    let before = data::image_folder(root.path(), &bytes()).unwrap();
    fs::write(root.path().join("test/cat/5.webp"), LOSSLESS).unwrap();
    let test_only = data::image_folder(root.path(), &bytes()).unwrap();
    assert_eq!(test_only.origin(), before.origin());
    fs::write(root.path().join("train/cat/5.WEBP"), LOSSLESS).unwrap();
    let after = data::image_folder(root.path(), &bytes()).unwrap();
    assert_eq!((after.train().len(), after.test().len()), (4, 2));
    assert_ne!(after.origin(), before.origin());
    assert_eq!(after.in_memory().unwrap().origin(), after.origin());
}

#[test]
fn files_are_checked_again_on_request() {
    let root = tree(&small());
    let pets = data::image_folder(root.path(), &bytes()).unwrap();
    pets.check_files().unwrap();
    fs::write(root.path().join("test/cat/4.png"), flat(9)).unwrap();
    let error = pets.check_files().unwrap_err();
    assert!(
        error.to_string().contains("4.png") && error.to_string().contains("changed"),
        "{error}"
    );
    assert!(pets.in_memory().is_err());
    assert!(data::glyphs_with(10, 0, 1).unwrap().check_files().is_ok(), "nothing is in files");
}

#[test]
fn all_damaged_files_are_reported_at_once() {
    let cut = flat(1)[..40].to_vec();
    let names = ["train/ant/b", "train/cat/a", "train/cat/b", "train/cat/c", "train/cat/d"];
    let mut files = small();
    let names: Vec<String> = names.iter().map(|name| format!("{name}.png")).collect();
    files.extend(names.iter().map(|name| (name.as_str(), cut.clone())));
    files.extend([("test/cat/bad.png", cut.clone()), ("test/cat/worse.jpg", cut.clone())]);
    let root = tree(&files);
    let opened = data::image_folder(root.path(), &bytes());
    let parts = [&names[0], &names[4], "7 of 11 images can't be used", "and 2 others"];
    let error = refused(opened, ErrorKind::CorruptData, &parts);
    assert!(error.advice().contains("replace or remove these files"), "{error}");
    assert_eq!(error.to_string().matches("damaged PNG").count(), 5, "{error}");
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_never_in_circles() {
    use std::os::unix::fs::symlink;
    let root = tree(&small());
    let train = root.path().join("train");
    symlink(train.join("cat/1.png"), train.join("ant/linked.png")).unwrap();
    symlink(&train, train.join("cat/up")).unwrap();
    let pets = data::image_folder(root.path(), &bytes()).unwrap();
    assert_eq!(pets.train().labels(), [0, 0, 1, 1]);
    assert!(pets.source().contains("1 link to a folder"), "{}", pets.source());

    symlink(train.join("ant/loop.png"), train.join("ant/loop.png")).unwrap();
    refused(data::image_folder(root.path(), &bytes()), ErrorKind::Io, &["loop.png"]);
    fs::remove_file(train.join("ant/loop.png")).unwrap();
    symlink("/nowhere.png", train.join("ant/gone.png")).unwrap();
    let text = ["gone.png is missing"];
    refused(data::image_folder(root.path(), &bytes()), ErrorKind::MissingData, &text);
}

#[test]
fn a_model_sees_files_and_memory_alike() {
    use epsilab::nn::Model;
    let dark: Vec<(String, Vec<u8>)> =
        (0..40).map(|i| (format!("train/dark/{i}.png"), flat(10 + i))).collect();
    let light = (0..40).map(|i| (format!("train/light/{i}.png"), flat(200 + i)));
    let files: Vec<_> = dark.into_iter().chain(light).collect();
    let files: Vec<(&str, Vec<u8>)> =
        files.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    let root = tree(&files);
    let data = data::image_folder(root.path(), &ImageOptions::size(4).grey()).unwrap();
    let data = data.split(0.75, 1).unwrap();
    let model: Model = epsilab::nn::models::mlp(&data, &[4]).seed(1).build().unwrap();
    let before = model.accuracy(&data).unwrap();
    let last = data.train().len() as u32 - 1;
    let batch = epsilab::engine::Batch::from_examples(data.train(), &[0, last]).unwrap();
    assert_eq!((batch.len(), batch.labels()), (2, &[0, 1][..]));
    let loaded = data.in_memory().unwrap();
    assert_eq!(before, model.accuracy(&loaded).unwrap());
    assert_eq!(model.predict(&data).unwrap(), model.predict(&loaded).unwrap());
}
