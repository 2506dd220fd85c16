//! Advice about values that move away, and about closures and threads that outlive the variables
//! that they use.

use evcxr::CompilationError;

use super::advice::Advice;

/// Returns advice for the errors E0382, E0505, E0597 and E0373. `name` is the variable.
pub fn for_borrow_error(error: &CompilationError, name: &str) -> Advice {
    let labels = error.spanned_messages().iter().map(|message| message.label.as_str());
    let labels: Vec<&str> = labels.collect();
    let children = error.json["children"].as_array().into_iter().flatten();
    let notes: Vec<&str> = children.filter_map(|child| child["message"].as_str()).collect();
    let outlives = any_contains(&labels, "for `'static`") || error.code() == Some("E0373");
    match error.code() {
        _ if outlives => Advice::instead_of_rustc(&format!(
            "a thread or closure that may outlive the cell can't borrow `{name}`: write `move ||`, \
             with `let {name} = {name}.clone();` before it to keep the variable; \
             `std::thread::scope` borrows without a clone"
        )),
        Some("E0382") => Advice::instead_of_rustc(&move_advice(name, &labels, &notes)),
        _ => Advice::default(),
    }
}

fn any_contains(texts: &[&str], phrase: &str) -> bool {
    texts.iter().any(|text| text.contains(phrase))
}

/// Returns advice that keeps a moved value. `labels` and `notes` are rustc's remarks on the
/// places.
fn move_advice(name: &str, labels: &[&str], notes: &[&str]) -> String {
    if any_contains(labels, "call to `.into_iter()`") {
        format!("the loop moves `{name}`: `for … in &{name}` keeps it")
    } else if any_contains(notes, "implemented `Clone`") {
        format!("a value without `Clone` moves: borrow it with `&{name}`, or create it again")
    } else if any_contains(labels, "into closure") {
        format!("the closure moves `{name}`: pass it a clone, `{name}.clone()`")
    } else {
        format!("the value moves: `{name}.clone()` there keeps it, and so does `&{name}`")
    }
}

/// Returns whether the error follows from one about the same variable that is reported already:
/// rustc reports a borrow that lasts too long a second time where generated code keeps the
/// variable.
pub fn is_followup_error(error: &CompilationError, earlier: &[&CompilationError]) -> bool {
    let name = |error: &CompilationError| error.message().split('`').nth(1).map(str::to_owned);
    error.code() == Some("E0505")
        && earlier.iter().any(|e| e.code() == Some("E0597") && name(e) == name(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_on_a_move_keeps_the_value() {
        let advice = |labels: &[&str], notes: &[&str]| move_advice("v", labels, notes);
        assert!(advice(&["value moved here"], &[]).contains("`v.clone()` there"));
        let of_loop = "`v` moved due to this implicit call to `.into_iter()`";
        assert!(advice(&[of_loop], &[]).contains("`for … in &v`"));
        let text = advice(&[], &["if `V` implemented `Clone`, you could clone the value"]);
        assert!(text.contains("`&v`") && !text.contains(".clone()"), "{text}");
        assert!(advice(&["value moved into closure here"], &[]).contains("the closure moves"));
    }
}
