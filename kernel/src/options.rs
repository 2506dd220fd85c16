//! Values of options that commands share: names of data sets, models and methods; counts; `--out`.

use std::path::Path;

use clap::ValueEnum;
use epsilab::data::{self, Dataset, TextOptions};
use epsilab::methods::{self, Method};
use epsilab::nn::{Activation, Model, ModelBuilder, ModelFamily, models};
use epsilab::{Error, ErrorKind, Result, file};

/// Activation and seed of a model, if they are given.
pub type ModelOptions = (Option<Activation>, Option<u64>);
/// Function that reads a data set.
pub type DatasetLoader = fn() -> Result<Dataset>;
/// Function that builds a model for the data, with initial parameters.
pub type ModelConstructor = fn(&Dataset, ModelOptions) -> Result<Model>;

/// All data sets by name.
pub const DATASETS: [(&str, DatasetLoader); 8] = [
    ("glyphs", data::glyphs),
    ("patterns", data::patterns),
    ("sentences", data::sentences),
    ("mnist", data::mnist),
    ("fashion_mnist", data::fashion_mnist),
    ("cifar10", data::cifar10),
    ("cifar100", data::cifar100),
    ("ag_news", || data::ag_news(&TextOptions::default())),
];

/// Name of the model for texts.
const TEXT_MODEL: &str = "bilstm";

/// All models by name.
pub const MODELS: [(&str, ModelConstructor); 17] = [
    ("papernot_cnn", |data, with| build_with(models::papernot_cnn(data), with)),
    ("stevens_mnist_cnn", |data, with| build_with(models::stevens_mnist_cnn(data), with)),
    ("stevens_cifar_cnn", |data, with| build_with(models::stevens_cifar_cnn(data), with)),
    ("simple_vgg", |data, with| build_with(models::simple_vgg(data, &[32, 64, 128], 2), with)),
    ("wide_resnet_16_4", |data, with| build_with(models::wide_resnet(data, 16, 4), with)),
    ("resnet18", |data, with| build_with(models::resnet18(data), with)),
    ("resnet50", |data, with| build_with(models::resnet50(data), with)),
    ("bit_resnet50", |data, with| build_with(models::bit_resnet50(data), with)),
    ("torchvision_resnet18", |data, with| build_with(models::torchvision_resnet18(data), with)),
    ("torchvision_resnet34", |data, with| build_with(models::torchvision_resnet34(data), with)),
    ("torchvision_resnet50", |data, with| build_with(models::torchvision_resnet50(data), with)),
    ("de_wide_resnet_16_4", |data, with| build_with(de_wide_resnet(data, 16, 4), with)),
    ("de_wide_resnet_28_10", |data, with| build_with(de_wide_resnet(data, 28, 10), with)),
    ("de_wide_resnet_40_4", |data, with| build_with(de_wide_resnet(data, 40, 4), with)),
    (TEXT_MODEL, |data, with| {
        let vocabulary = data.vocabulary().map_or(0, data::Vocabulary::len);
        build_with(models::bilstm(data, vocabulary, 64, 64), with)
    }),
    ("mlp", |data, with| build_with(models::mlp(data, &[64]), with)),
    ("linear", |data, with| build_with(models::linear(data), with)),
];

/// Returns the builder of the wide residual network of De et al.'s code.
fn de_wide_resnet(data: &Dataset, depth: usize, width: usize) -> ModelBuilder<models::WideResnet> {
    models::wide_resnet(data, depth, width).as_published()
}

/// Returns the name of a value on the command line.
pub fn name_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Returns the value with this name.
///
/// # Errors
/// Kind `Setting` for an unknown name; the text lists the known ones.
pub fn lookup<T: Copy>(option: &str, name: &str, table: &[(&'static str, T)]) -> Result<T> {
    lookup_entry(option, name, table).map(|(_, value)| value)
}

fn lookup_entry<T: Copy>(
    option: &str,
    name: &str,
    table: &[(&'static str, T)],
) -> Result<(&'static str, T)> {
    table.iter().find(|(known, _)| *known == name).copied().ok_or_else(|| {
        let names: Vec<&str> = table.iter().map(|(known, _)| *known).collect();
        Error::setting(option, name, "unknown name").fix(suggest_names(name, &names))
    })
}

/// Returns advice for an unknown name: the most similar of the known ones, if any is similar, and
/// all.
pub fn suggest_names(name: &str, known: &[&str]) -> String {
    let all = format!("choose from {}", known.join(", "));
    match closest_match(name, known.iter().copied()) {
        Some(nearest) => format!("did you mean {nearest}? Or {all}"),
        None => all,
    }
}

/// Returns the known name that is most similar to what was typed, if it is similar enough to be
/// meant.
pub fn closest_match<'a>(input: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let input = input.to_lowercase();
    // Of short names, one wrong letter is a large part.
    let likeness = |name| match strsim::damerau_levenshtein(&input, name) {
        0 | 1 => 1.0,
        _ => strsim::jaro_winkler(&input, name),
    };
    let best = known.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) > 0.8).then_some(best)
}

/// Returns the model with this name.
///
/// # Errors
/// Kind `Setting` for an unknown name; the text lists the known ones.
pub fn find_model(name: &str) -> Result<(&'static str, ModelConstructor)> {
    lookup_entry("--model", name, &MODELS)
}

/// Returns the model for images, tables or texts if none is named.
///
/// # Errors
/// As [`lookup`].
pub fn default_model(data: &Dataset) -> Result<(&'static str, ModelConstructor)> {
    find_model(match (data.vocabulary(), data.shape().len()) {
        (Some(_), _) => TEXT_MODEL,
        (None, 1) => "mlp",
        _ => "papernot_cnn",
    })
}

/// Returns the method with this name and its default settings.
///
/// # Errors
/// Kind `Setting` for an unknown name; the text lists the known ones.
pub fn find_method(name: &str) -> Result<Box<dyn Method>> {
    let found = methods::methods().into_iter().find(|method| method.descriptor().name == name);
    found.ok_or_else(|| {
        Error::setting("--method", name, "unknown method").fix(suggest_names(name, &method_names()))
    })
}

/// Returns the names of all methods, separated by commas.
pub fn method_list() -> String {
    method_names().join(", ")
}

fn method_names() -> Vec<&'static str> {
    methods::methods().into_iter().map(|method| method.descriptor().name).collect()
}

/// Returns the activation of this name, if one is given.
///
/// # Errors
/// Kind `Setting` for an unknown name; the text lists the known ones.
pub fn parse_activation(name: Option<&str>) -> Result<Option<Activation>> {
    let known =
        [("tanh", Activation::Tanh), ("relu", Activation::Relu), ("selu", Activation::Selu)];
    name.map(|name| lookup("--activation", name, &known)).transpose()
}

/// Returns a count, which the command line reads as a signed number so that a negative one is
/// refused with its name.
///
/// # Errors
/// Kind `Setting` for a negative number.
pub fn non_negative_count<N: TryFrom<i64>>(option: &str, value: Option<i64>) -> Result<Option<N>> {
    let whole = |value| {
        N::try_from(value).map_err(|_| {
            Error::setting(option, value, "a count cannot be negative")
                .fix("use a whole number, 1 or more")
        })
    };
    value.map(whole).transpose()
}

/// Builds the model for these data with initial parameters of this seed.
///
/// # Errors
/// Kind `Model` if the model does not fit the data.
pub fn build_model(
    (name, constructor): (&str, ModelConstructor),
    data: &Dataset,
    options: ModelOptions,
) -> Result<Model> {
    let texts = data.vocabulary().is_some();
    if texts != (name == TEXT_MODEL) {
        let what = format!("the model {name} on {}", data.name());
        let (why, fix) = if texts {
            ("the model does not read texts", "use --model bilstm")
        } else {
            ("the model reads texts only", "use --data sentences or ag_news")
        };
        return Err(Error::new(ErrorKind::Model, what, why).fix(fix));
    }
    constructor(data, options)
}

fn build_with<F: ModelFamily>(
    builder: ModelBuilder<F>,
    (activation, seed): ModelOptions,
) -> Result<Model> {
    let builder = activation.into_iter().fold(builder, ModelBuilder::activation);
    seed.into_iter().fold(builder, ModelBuilder::seed).build()
}

/// Assumed size in bytes of the files in a folder of results.
const RESULTS: u64 = 1 << 20;

/// Makes the folder of `--out`, and checks that results can be written there, before hours of
/// training.
///
/// # Errors
/// Kind `Io` if they can't.
pub fn check_out(folder: &Path) -> Result<()> {
    file::check_disk_space(folder, RESULTS).map_err(|error| {
        error.fix("name a folder that you can write with `--out DIR`, on a disk with free space")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_if_it_is_similar() {
        let nearest =
            |typed| closest_match(typed, ["mlp", "linear", "resnet18", "dp-sgd"].into_iter());
        assert_eq!((nearest("mpl"), nearest("Resnet-18")), (Some("mlp"), Some("resnet18")));
        assert_eq!((nearest("dp-sdg"), nearest("vgg")), (Some("dp-sgd"), None));
        assert!(suggest_names("mpl", &["mlp"]).starts_with("did you mean mlp? Or choose from mlp"));
    }

    #[test]
    fn every_model_is_built_for_data_it_suits_and_refused_for_others() {
        let images = data::from_vecs(vec![0.0; 3 * 32 * 32], &[3, 32, 32], vec![0], 10).unwrap();
        let texts = data::sentences_with(4, 0, 1).unwrap();
        for entry in MODELS {
            let (suits, other) = match entry.0 {
                TEXT_MODEL => (&texts, &images),
                _ => (&images, &texts),
            };
            assert!(build_model(entry, suits, (None, Some(1))).is_ok(), "{}", entry.0);
            let refused = build_model(entry, other, (None, Some(1))).unwrap_err();
            assert!(refused.kind() == ErrorKind::Model && !refused.advice().is_empty());
        }
        let flat = data::from_vecs(vec![0.0; 6], &[6], vec![0], 2).unwrap();
        let named = |name| lookup_entry("--model", name, &MODELS).unwrap();
        assert!(build_model(named("papernot_cnn"), &flat, (None, Some(1))).is_err());
        assert!(build_model(named("mlp"), &flat, (Some(Activation::Relu), Some(1))).is_ok());
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        let refused =
            |name: &str| lookup("--data", name, &DATASETS).unwrap_err().advice().to_owned();
        assert!(refused("glyph").contains("glyphs, patterns"));
        assert!(find_model("").unwrap_err().advice().contains("papernot_cnn"));
        assert_eq!(find_model("mlp").unwrap().0, "mlp");
    }

    #[test]
    fn a_folder_for_results_is_made_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        check_out(&folder.path().join("a/b")).unwrap();
        assert_eq!(std::fs::read_dir(folder.path().join("a/b")).unwrap().count(), 0);
        std::fs::write(folder.path().join("file"), "").unwrap();
        let refused = check_out(&folder.path().join("file")).unwrap_err();
        assert!(refused.advice().contains("--out"), "{refused}");
    }
}
