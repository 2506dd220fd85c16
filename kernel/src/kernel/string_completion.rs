//! Completion inside the strings that functions of the lab take as names.

use epsilab::lab;
use serde_json::Value;

use super::complete::completed;
use super::receiver::split_word;

/// Returns the names that a function of the lab accepts, if it takes names.
fn valid_names(function: &str) -> Option<Vec<String>> {
    match function {
        "exercise" => Some(lab::exercise_names().map(str::to_owned).collect()),
        "checkpoint" | "remove_checkpoint" | "remove_run" => {
            let runs = lab::runs().ok()?;
            Some(runs.all().iter().map(|run| run.id.clone()).collect())
        }
        "device" => Some(["cpu", "cuda", "wgpu"].map(str::to_owned).into()),
        _ => None,
    }
}

/// Returns the content of a `complete_reply` if the cursor is in the first argument of a function
/// of the lab that takes names.
pub fn complete(code: &str, cursor: usize) -> Option<Value> {
    let before: String = code.chars().take(cursor).collect();
    let line = before.rsplit('\n').next()?;
    if line.matches('"').count() % 2 == 0 {
        return None;
    }
    let (call, typed) = line.rsplit_once('"')?;
    let path = call.trim_end().strip_suffix('(')?;
    let names = valid_names(split_word(path).1)?.into_iter();
    let matches: Vec<String> = names.filter(|name| name.starts_with(typed)).collect();
    Some(completed(&matches, cursor - typed.chars().count()..cursor))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_completed_in_strings_that_take_them() {
        let reply = |code: &str| complete(code, code.chars().count());
        let found = reply("let ä = lab::exercise(\"03.").expect("names");
        assert_eq!(found["matches"], json!(["03.1", "03.2"]));
        assert_eq!((&found["cursor_start"], &found["cursor_end"]), (&json!(23), &json!(26)));
        assert_eq!(reply("plan.device(\"c").expect("names")["matches"], json!(["cpu", "cuda"]));
        assert_eq!(reply("lab::exercise(\"03.1\""), None);
        assert_eq!((reply("println!(\"cp"), reply("exercise(")), (None, None));
    }
}
