//! Parameters of a notebook: variables whose values are given when the notebook is run.

use serde_json::Value;

use crate::{Error, Result};

/// A type that a notebook's parameter can have: integers, floats, `bool`, `String`,
/// `&'static str`, and `Vec` and `Option` of these.
pub trait Parameter: Sized {
    /// What a value of the type is called in an error.
    #[doc(hidden)]
    fn kind() -> String;

    /// The value, or `None` if it is of another kind or out of range.
    #[doc(hidden)]
    fn read(value: &Value) -> Option<Self>;
}

/// The value `text` of the parameter `name`, in the type of its `default`.
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
pub fn parameter<T: Parameter>(name: &str, default: T, text: &str) -> Result<T> {
    drop(default);
    let json = serde_json::from_str(text).ok();
    json.and_then(|value| T::read(&value))
        .or_else(|| T::read(&Value::String(text.to_owned())))
        .ok_or_else(|| {
            let why = format!("the notebook expects {}", T::kind());
            Error::setting(name, text, why)
                .fix(format!("give another value, or change the type of `{name}` in the notebook"))
        })
}

macro_rules! integers {
    ($($kind:ty)*) => { $(
        impl Parameter for $kind {
            fn kind() -> String {
                format!("an integer from {} to {}", <$kind>::MIN, <$kind>::MAX)
            }

            fn read(value: &Value) -> Option<Self> {
                match value {
                    Value::Number(number) => number.to_string().parse().ok(),
                    _ => None,
                }
            }
        }
    )* };
}

integers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize);

impl Parameter for f64 {
    fn kind() -> String {
        "a number".into()
    }

    fn read(value: &Value) -> Option<Self> {
        value.as_f64().or_else(|| value.as_str()?.parse().ok())
    }
}

impl Parameter for f32 {
    fn kind() -> String {
        f64::kind()
    }

    fn read(value: &Value) -> Option<Self> {
        f64::read(value).map(|wide| wide as f32)
    }
}

impl Parameter for bool {
    fn kind() -> String {
        "true or false".into()
    }

    fn read(value: &Value) -> Option<Self> {
        value.as_bool()
    }
}

impl Parameter for String {
    fn kind() -> String {
        "a text".into()
    }

    fn read(value: &Value) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }
}

/// The text is never freed: variables of a notebook live as long as its process.
impl Parameter for &'static str {
    fn kind() -> String {
        String::kind()
    }

    fn read(value: &Value) -> Option<Self> {
        String::read(value).map(|text| &*text.leak())
    }
}

impl<T: Parameter> Parameter for Vec<T> {
    fn kind() -> String {
        format!("a list in JSON, such as [1, 2], whose elements are each {}", T::kind())
    }

    fn read(value: &Value) -> Option<Self> {
        value.as_array()?.iter().map(T::read).collect()
    }
}

impl<T: Parameter> Parameter for Option<T> {
    fn kind() -> String {
        format!("null or {}", T::kind())
    }

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            // A word that is not quoted.
            Value::String(text) if text == "null" => Some(None),
            other => T::read(other).map(Some),
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
        for (text, of) in [
            ("0.5", parameter("n", 1_i32, "0.5").err()),
            ("-1", parameter("n", 1_usize, "-1").err()),
            ("300", parameter("n", 1_u8, "300").err()),
            ("many", parameter("n", 1_i64, "many").err()),
        ] {
            let said = of.expect("refused").to_string();
            assert!(said.contains(&format!("n = {text}")) && said.contains("integer"), "{said}");
        }
        assert!(parameter("on", true, "1").is_err() && parameter("rate", 1.0, "fast").is_err());
        let said = parameter("rates", vec![1], "[1, 0.5]").expect_err("refused").to_string();
        assert!(said.contains("a list"), "{said}");
    }
}
