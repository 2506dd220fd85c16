//! Tables as people bring them.

use super::*;
use crate::ErrorKind;

/// Writes a file and reads it as a table.
fn read_as(
    name: &str,
    text: impl AsRef<[u8]>,
    declare: impl Fn(TableReader) -> TableReader,
) -> Result<Dataset> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    declare(table(path)).read()
}

fn read(text: impl AsRef<[u8]>) -> Result<Dataset> {
    read_as("t.csv", text, |table| table)
}

/// Asserts that an error is of corrupt data, and that its text and advice contain the parts.
#[track_caller]
fn refused(result: Result<Dataset>, parts: &[&str]) {
    let error = result.expect_err("it should be refused");
    assert_eq!(error.kind(), ErrorKind::CorruptData, "{error}");
    let text = format!("{error} {}", error.advice());
    parts.iter().for_each(|part| assert!(text.contains(part), "no `{part}` in: {text}"));
}

const PLAIN: &str = "a,b,label\n1.5,-2,x\n0.25,3,y\n";

#[test]
fn every_form_of_a_file_gives_the_same_features_and_ledger() {
    let plain = read(PLAIN).unwrap();
    assert_eq!(plain.train().features_flat(), [1.5, -2.0, 0.25, 3.0]);
    assert_eq!(plain.column_names().unwrap(), ["a", "b"]);
    assert!(plain.notices().is_empty() && plain.not_covered_reason().is_none());
    let forms = [
        PLAIN.replace(',', ";"),
        PLAIN.replace(',', "\t"),
        PLAIN.replace(',', "|"),
        PLAIN.replace('\n', "\r\n"),
        format!("\u{feff}{PLAIN}"),
        format!("\u{feff}\"a\",\"b\",\"label\"\n{}", &PLAIN[10..]),
        format!("# made by a tool, version 1,2,3\n# second line\n{PLAIN}"),
    ];
    for form in forms {
        let data = read(&form).unwrap();
        assert_eq!(data.hash(), plain.hash(), "{form:?}");
        assert_eq!(data.origin(), plain.origin(), "{form:?}");
    }
    let commas = read("a;b;label\n1,5;-2;x\n0,25;3;y\n").unwrap();
    assert_eq!(commas.hash(), plain.hash(), "decimal commas");
    let given = read_as("t.txt", "a:b:label\n1:2:x\n3:4:y\n", |t| t.separator(':')).unwrap();
    assert_eq!(given.train().features_flat(), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn errors_name_the_line_that_an_editor_shows() {
    let rows = |bad: &str, end: &str| {
        let mut text = format!("a,b,label{end}");
        for i in 0..60 {
            let a = if i == 2 { bad.to_owned() } else { format!("{i}.5") };
            text += &format!("{a},1,{}{end}", ["x", "y"][i % 2]);
        }
        text
    };
    for end in ["\n", "\r\n"] {
        refused(read(rows("oops", end)), &["line 4, column `a`", "`oops`", "--ignore a"]);
        refused(read(rows("", end)), &["line 4, column `a`", "the cell is empty", "--missing a="]);
        refused(read(rows("NA", end)), &["line 4, column `a`", "`NA` stands for a missing value"]);
        refused(read(rows("1,2", end)), &["line 4: 4 cells, but the header has 3"]);
        let comment = format!("# one{end}{}", rows("oops", end));
        refused(read(comment), &["line 5, column `a`"]);
    }
    refused(read(rows("inf", "\n")), &["line 4", "`inf` is not a finite"]);
    refused(read("a,label\n1,x\n2,\n"), &["line 3", "label", "the cell is empty"]);
}

#[test]
fn a_nameless_column_is_the_index_of_the_rows_or_refused() {
    let plain = read(PLAIN).unwrap();
    for header in ["", "Unnamed: 0", "\"\""] {
        for first in [0, 1] {
            let text = format!("{header},a,b,label\n{first},1.5,-2,x\n{},0.25,3,y\n", first + 1);
            let data = read(&text).unwrap();
            assert_eq!(data.hash(), plain.hash(), "{text}");
            assert!(data.notices()[0].contains("counts the rows"), "{:?}", data.notices());
        }
    }
    let data = read("a,b,label,\n1.5,-2,x,\n0.25,3,y,\n").unwrap();
    assert_eq!(data.hash(), plain.hash());
    assert!(data.notices()[0].contains("column 4 has no name and has no cells"));
    refused(read(",a,label\n7,1,x\n9,2,y\n"), &["column 1 has no name"]);
    let ids: String = (0..40).map(|i| format!("{i},{}.5,{}\n", i % 7, ["x", "y"][i % 2])).collect();
    let data = read(format!("id,a,label\n{ids}")).unwrap();
    assert_eq!(data.shape(), [2]);
    assert!(data.notices()[0].contains("`id` counts the rows"), "{:?}", data.notices());
    let data = read("id,label\n9007199254740993,x\n12,y\n").unwrap();
    assert!(data.notices()[0].contains("such as 9007199254740993"), "{:?}", data.notices());
}

#[test]
fn booleans_and_categories_become_features() {
    let text = "ill,sex,age,label\nTrue,F,20,x\nFalse,M,70,y\nTRUE,other,120,x\n";
    let declare = |table: TableReader| table.category("sex", ["F", "M"]).scale("age", 0.0..=100.0);
    let data = read_as("t.csv", text, declare).unwrap();
    assert_eq!(data.column_names().unwrap(), ["ill", "sex=F", "sex=M", "sex=(other)", "age"]);
    assert_eq!(data.train().features(0), [1.0, 1.0, 0.0, 0.0, 0.2]);
    assert_eq!(data.train().features(1), [0.0, 0.0, 1.0, 0.0, 0.7]);
    assert_eq!(data.train().features(2), [1.0, 0.0, 0.0, 1.0, 1.0], "clamped, and no category");
    assert!(data.notices()[0].contains("`sex`: 1 cell without"), "{:?}", data.notices());
    assert_eq!(data.not_covered_reason(), None);
    assert!(data.source().contains("`age` (number, 0 to 100 as 0 to 1)"), "{}", data.source());

    let inferred = read(text).unwrap();
    assert_eq!(inferred.column_names().unwrap()[1..4], ["sex=F", "sex=M", "sex=other"]);
    let reason = inferred.not_covered_reason().unwrap();
    assert!(reason.contains("categories of `sex` were read from its rows"), "{reason}");
    assert_eq!(inferred.origin(), data.origin(), "the ledger is that of the same people");
    assert_ne!(inferred.hash(), data.hash(), "another preparation is another run");
    let scaled = read_as("t.csv", text, |t| declare(t).scale("age", 0.0..=50.0)).unwrap();
    assert_eq!(scaled.origin(), data.origin());
    assert_ne!(scaled.hash(), data.hash());
}

#[test]
fn too_many_or_mixed_texts_are_refused() {
    let names: String = (0..60).map(|i| format!("name{i},{}\n", ["x", "y"][i % 2])).collect();
    refused(read(format!("who,label\n{names}")), &["`who`", "more than 50 different texts"]);
    refused(read("code,label\n1,x\nA7,y\n"), &["line 3, column `code`", "`A7` is not a number"]);
    let ignored =
        read_as("t.csv", format!("who,a,label\n{}", names.replace(',', ",1,")), |table| {
            table.ignore("who")
        });
    assert_eq!(ignored.unwrap().column_names().unwrap(), ["a"]);
    refused(read("a,label\n,x\n?,y\n"), &["column `a` has no values"]);
}

#[test]
fn missing_values_follow_the_rule() {
    let text = "age,label\n?,x\n40,y\n";
    let value = read_as("t.csv", text, |table| table.missing("age", MissingRule::Value(30.0)));
    assert_eq!(value.unwrap().train().features_flat(), [30.0, 40.0]);
    let flag = read_as("t.csv", text, |table| {
        table.missing("age", MissingRule::Flag).scale("age", 0.0..=80.0)
    });
    let flag = flag.unwrap();
    assert_eq!(flag.train().features_flat(), [0.0, 1.0, 0.5, 0.0]);
    assert_eq!(flag.column_names().unwrap(), ["age", "age=(missing)"]);
    let category = read_as("t.csv", "a,s,label\n1,?,x\n2,F,y\n", |t| t.category("s", ["F"]));
    assert_eq!(category.unwrap().train().features(0), [1.0, 0.0, 1.0], "missing is (other)");
}

#[test]
fn a_quantity_is_no_class() {
    let prices: String = (0..150).map(|i| format!("1,{}\n", i * 3)).collect();
    refused(
        read_as("t.csv", format!("a,price\n{prices}"), |t| t.label("price")),
        &["column `price` is a quantity", "150 different numbers", "--as-classes"],
    );
    let fraction = |t: TableReader| t.label("price");
    refused(read_as("t.csv", "a,price\n1,2.5\n2,3\n", fraction), &["have fractions, such as 2.5"]);
    let kept = read_as("t.csv", "a,price\n1,2.5\n2,3\n", |t| t.label("price").as_classes());
    assert_eq!(kept.unwrap().class_names(), ["2.5", "3"]);
    let grades: String = (0..33).map(|i| format!("1,{}\n", i % 11)).collect();
    assert_eq!(read(format!("a,label\n{grades}")).unwrap().classes(), 11);
    let hundred: String = (0..200).map(|i| format!("1,{}\n", i % 100)).collect();
    assert_eq!(read(format!("a,label\n{hundred}")).unwrap().classes(), 100);
}

#[test]
fn files_of_other_formats_and_wrong_columns_are_named() {
    refused(read(b"PAR1\x15\x04"), &["a Parquet file", "to_csv"]);
    refused(read(b"PK\x03\x04zip"), &["a spreadsheet or a zip archive"]);
    refused(read(b"\xff\xfea\x00"), &["UTF-16"]);
    let unknown = |name: &str| {
        let error = read_as("t.csv", "a,Label\n1,x\n", |table| table.label(name)).unwrap_err();
        format!("{error} {}", error.advice())
    };
    assert!(unknown("label").contains("did you mean `Label`?"), "{}", unknown("label"));
    let error = read_as("t.csv", PLAIN, |table| table.ignore("c")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Setting, "{error}");
    let error = read_as("t.csv", PLAIN, |table| table.scale("a", 3.0..=1.0)).unwrap_err();
    assert!(error.to_string().contains("a=3..1"), "{error}");
    let error = read_as("t.csv", PLAIN, |table| table.ignore("label")).unwrap_err();
    assert!(error.to_string().contains("the label column is not a feature"), "{error}");
}

#[test]
fn a_schema_reads_another_file_in_its_own_order() {
    let text = "sex,age,label\nF,20,x\nM,70,y\n";
    let first = read_as("t.csv", text, |t| t.scale("age", 0.0..=100.0)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("schema.json");
    first.schema().unwrap().save(&path).unwrap();
    let schema = TableSchema::load(&path).unwrap();
    assert_eq!(&schema, first.schema().unwrap());
    let other = "age;label;sex\n70;y;F\n20;x;K\n";
    let second = read_as("t.csv", other, |t| t.schema(schema.clone())).unwrap();
    assert_eq!(second.column_names(), first.column_names());
    assert_eq!(second.train().features(0), [1.0, 0.0, 0.0, 0.7]);
    assert_eq!(second.train().features(1), [0.0, 0.0, 1.0, 0.2], "an unknown category");
    let indexed = read_as("t.csv", ",a,label\n0,5,x\n1,6,y\n", |t| t).unwrap();
    let again =
        read_as("t.csv", "a,label\n5,x\n6,y\n", |t| t.schema(indexed.schema().unwrap().clone()));
    assert_eq!(again.unwrap().hash(), indexed.hash(), "what is ignored may be missing");
    let more = "age,label,sex,extra\n70,y,F,1\n20,x,M,2\n";
    refused(
        read_as("t.csv", more, |t| t.schema(schema.clone())),
        &["`extra` is not in the schema"],
    );
    std::fs::write(&path, "{\"label\": \"x\", \"colums\": []}").unwrap();
    let error = TableSchema::load(&path).unwrap_err();
    assert!(error.to_string().contains("colums"), "{error}");
}
