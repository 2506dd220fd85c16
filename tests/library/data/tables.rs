//! Vectors and CSV tables.

use super::*;

#[test]
fn vectors_that_do_not_fit_are_refused() {
    let make = |x: &[f32], shape: &[usize], y: &[u32], classes| {
        data::from_vecs(x.to_vec(), shape, y.to_vec(), classes)
    };
    let setting = ErrorKind::Setting;
    refused(make(&[1.0; 5], &[2], &[0, 1], 2), setting, &["x = 5 numbers", "2 labels"]);
    refused(make(&[1.0; 2], &[1], &[0, 0], 1), setting, &["classes = 1", "from 2"]);
    refused(make(&[1.0; 2], &[1], &[0, 1], usize::MAX), setting, &["to 65,536"]);
    refused(make(&[], &[2], &[], 2), setting, &["y = []", "at least one example"]);
    refused(make(&[1.0; 2], &[], &[0, 1], 2), setting, &["shape = []"]);
    refused(make(&[1.0; 2], &[1, 0], &[0, 1], 2), setting, &["shape = [1, 0]"]);
    refused(make(&[1.0; 2], &[usize::MAX, 4], &[0, 1], 2), setting, &["shape = ["]);

    let corrupt = ErrorKind::CorruptData;
    let text = ["label 2 of example 1 is out of range", "0 to 1"];
    refused(make(&[1.0; 4], &[2], &[0, 2], 2), corrupt, &text);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let text = [format!("feature 1 of example 1 is {bad}")];
        let text = text.each_ref().map(String::as_str);
        refused(make(&[1.0, 2.0, 3.0, bad], &[2], &[0, 1], 2), corrupt, &text);
    }
}

fn csv(text: &str, label: &str) -> Result<Dataset> {
    let folder = folder(&[("flowers.csv", text.into())]);
    data::csv(folder.path().join("flowers.csv"), label)
}

#[test]
fn a_csv_table_is_read_with_its_classes_in_sorted_order() {
    let text = "\u{feff}petal, kind ,sepal\n1.5,rose,-2\n0,\"fern, tall\",3e2\n7,rose,1\n";
    let flowers = csv(text, "kind").unwrap();
    let line = "flowers: 3 training and no test examples of shape 2, 2 classes";
    assert_eq!(flowers.to_string(), line);
    assert_eq!(flowers.class_names(), ["fern, tall", "rose"]);
    let packed = folder(&[("flowers.csv.gz", gzip(text.as_bytes()))]);
    let packed = data::csv(packed.path().join("flowers.csv.gz"), "kind").unwrap();
    assert_eq!((packed.to_string(), packed.hash()), (flowers.to_string(), flowers.hash()));
    assert_eq!(flowers.train().labels(), [1, 0, 1]);
    assert_eq!(flowers.train().features_flat(), [1.5, -2.0, 0.0, 300.0, 7.0, 1.0]);

    let numbered = csv("x,y\n1,10\n2,9\n3,-1\n", "y").unwrap();
    assert_eq!(numbered.class_names(), ["-1", "9", "10"]);
    assert_eq!(csv("x,y\n1,10\n2,9", "x").unwrap().train().features_flat(), [10.0, 9.0]);
}

#[test]
fn a_csv_table_with_errors_is_refused_by_line_and_column() {
    let corrupt = ErrorKind::CorruptData;
    let text = ["label = `sort`", "its columns are petal, kind"];
    refused(csv("petal,kind\n1,a\n2,b\n", "sort"), ErrorKind::Setting, &text);
    refused(csv("", "kind"), ErrorKind::Setting, &["no such column"]);
    let many: String = (0..70_000).map(|i| format!("{i},id{i}\n")).collect();
    let many = format!("petal,kind\n{many}");
    let cases: [(&str, &[&str]); 10] = [
        ("petal,kind\n1,a\nlong,b\n", &["line 3, column `petal`", "`long` is not a number"]),
        (
            "petal,kind\n1,a\nNaN,b\n",
            &["line 3, column `petal`", "`NaN` stands for a missing value"],
        ),
        ("petal,kind\n1e99,a\n2,b\n", &["line 2, column `petal`", "not a finite 32-bit number"]),
        ("petal,kind\n1,a\n ,b\n", &["line 3, column `petal`", "empty"]),
        ("petal,kind\n1,a\n2,\n", &["line 3, column `kind`", "empty"]),
        ("petal,kind\n1,a\n2,b,3\n", &["line 3", "3 cells", "header has 2"]),
        ("petal,petal,kind\n1,2,a\n", &["line 1", "two columns are named `petal`"]),
        ("kind\na\nb\n", &["`kind` is its only column"]),
        ("petal,kind\n1,a\n2,a\n", &["1 different labels in 2 rows"]),
        (&many, &["70,000 different labels", "use labels of 2 to 65,536 classes"]),
    ];
    for (text, parts) in cases {
        refused(csv(text, "kind"), corrupt, &[parts, &["flowers.csv"]].concat());
    }
    let folder = folder(&[("latin.csv", b"petal,kind\n1,caf\xe9\n".to_vec())]);
    let text = ["line 2", "not UTF-8"];
    refused(data::csv(folder.path().join("latin.csv"), "kind"), corrupt, &text);
    let absent = folder.path().join("absent.csv");
    refused(data::csv(&absent, "kind"), ErrorKind::MissingData, &["absent.csv", "no such file"]);
}
