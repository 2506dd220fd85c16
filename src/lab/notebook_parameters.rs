//! Parameters of a notebook: variables whose values are given when the notebook is run.

use serde_json::Value;

use crate::{Error, Result};

/// A type that a notebook's parameter can have: integers, floats, `bool`, `String`,
/// `&'static str`, and `Vec` and `Option` of these.
pub trait NotebookParameter: Sized {
    /// Describes the values of the type, for error messages.
    #[doc(hidden)]
    fn description() -> String;

    /// Converts a JSON value; `None` if it is of another kind or out of range.
    #[doc(hidden)]
    fn from_json(value: &Value) -> Option<Self>;
}

/// Parses the value `text` of the parameter `name`, in the type of its `default`.
///
/// `text` is JSON, or a string without quotes. `cargo lab run --params epochs=3` inserts a cell
/// that calls this after the cell with the tag `parameters`.
///
/// ```
/// let epochs: usize = 5;
/// let epochs = epsilab::lab::parameter("epochs", epochs, "3")?;
/// assert_eq!(epochs, 3);
/// # Ok::<(), epsilab::Error>(())
/// ```
///
/// # Errors
/// `Setting` if `text` is not a value of the type.
pub fn parameter<T: NotebookParameter>(name: &str, default: T, text: &str) -> Result<T> {
    drop(default);
    let json = serde_json::from_str(text).ok();
    json.and_then(|value| T::from_json(&value))
        .or_else(|| T::from_json(&Value::String(text.to_owned())))
        .ok_or_else(|| {
            let why = format!("the notebook expects {}", T::description());
            Error::setting(name, text, why)
                .fix(format!("give another value, or change the type of `{name}` in the notebook"))
        })
}

macro_rules! integers {
    ($($kind:ty)*) => { $(
        impl NotebookParameter for $kind {
            fn description() -> String {
                format!("an integer from {} to {}", <$kind>::MIN, <$kind>::MAX)
            }

            fn from_json(value: &Value) -> Option<Self> {
                match value {
                    Value::Number(number) => number.to_string().parse().ok(),
                    _ => None,
                }
            }
        }
    )* };
}

integers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize);

impl NotebookParameter for f64 {
    fn description() -> String {
        "a number".into()
    }

    fn from_json(value: &Value) -> Option<Self> {
        value.as_f64().or_else(|| value.as_str()?.parse().ok())
    }
}

impl NotebookParameter for f32 {
    fn description() -> String {
        f64::description()
    }

    fn from_json(value: &Value) -> Option<Self> {
        f64::from_json(value).map(|wide| wide as f32)
    }
}

impl NotebookParameter for bool {
    fn description() -> String {
        "true or false".into()
    }

    fn from_json(value: &Value) -> Option<Self> {
        value.as_bool()
    }
}

impl NotebookParameter for String {
    fn description() -> String {
        "a text".into()
    }

    fn from_json(value: &Value) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }
}

/// The text is never freed: variables of a notebook live as long as its process.
impl NotebookParameter for &'static str {
    fn description() -> String {
        String::description()
    }

    fn from_json(value: &Value) -> Option<Self> {
        String::from_json(value).map(|text| &*text.leak())
    }
}

impl<T: NotebookParameter> NotebookParameter for Vec<T> {
    fn description() -> String {
        format!("a list in JSON, such as [1, 2], whose elements are each {}", T::description())
    }

    fn from_json(value: &Value) -> Option<Self> {
        value.as_array()?.iter().map(T::from_json).collect()
    }
}

impl<T: NotebookParameter> NotebookParameter for Option<T> {
    fn description() -> String {
        format!("null or {}", T::description())
    }

    fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            // A word that is not quoted.
            Value::String(text) if text == "null" => Some(None),
            other => T::from_json(other).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_the_type_of_the_default() {
        assert_eq!(parameter("n", 5_usize, "3").expect("an integer"), 3);
        assert_eq!(parameter("n", 0_u64, &u64::MAX.to_string()).expect("large"), u64::MAX);
        assert_eq!(parameter("rate", 0.5, "1").expect("a number"), 1.0);
        assert_eq!(parameter("rate", 0.5_f32, ".25").expect("a number"), 0.25);
        assert!(parameter("on", false, "true").expect("a truth value"));
        assert_eq!(parameter("data", "", "mnist").expect("a word"), "mnist");
        assert_eq!(parameter("data", String::new(), "\"a\\\"b\"").expect("a text"), "a\"b");
        assert_eq!(parameter("label", String::new(), "3").expect("a text"), "3");
        assert_eq!(parameter("rates", vec![0.0], "[0.1, 2]").expect("a list"), [0.1, 2.0]);
        assert_eq!(parameter("k", Some(1), "null").expect("nothing"), None);
        assert_eq!(parameter("k", None, "2").expect("something"), Some(2));
    }

    #[test]
    fn other_values_are_refused_with_the_kind_that_is_expected() {
        for (text, result) in [
            ("0.5", parameter("n", 1_i32, "0.5").err()),
            ("-1", parameter("n", 1_usize, "-1").err()),
            ("300", parameter("n", 1_u8, "300").err()),
            ("many", parameter("n", 1_i64, "many").err()),
        ] {
            let message = result.expect("refused").to_string();
            assert!(
                message.contains(&format!("n = {text}")) && message.contains("integer"),
                "{message}"
            );
        }
        assert!(parameter("on", true, "1").is_err() && parameter("rate", 1.0, "fast").is_err());
        let message = parameter("rates", vec![1], "[1, 0.5]").expect_err("refused").to_string();
        assert!(message.contains("a list"), "{message}");
    }
}
