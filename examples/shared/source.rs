//! Pages made of source text, so that everything they show is compiled.

/// The doc comment and the body of a function in a source file, without its last `Ok(())`.
pub fn doc_and_body(source: &str, name: &str) -> (String, String) {
    let (before, after) = source.split_once(&format!("fn {name}(")).unwrap_or_default();
    let words = before.lines().rev().map_while(|line| line.strip_prefix("/// "));
    let mut words: Vec<&str> = words.collect();
    words.reverse();
    let body = after.split_once("{\n").unwrap_or_default().1;
    let body = body.split("\n}\n").next().unwrap_or_default();
    let code: Vec<&str> = body
        .lines()
        .map(|line| line.strip_prefix("    ").unwrap_or(line))
        .filter(|line| *line != "Ok(())")
        .collect();
    (words.join("\n"), code.join("\n"))
}
