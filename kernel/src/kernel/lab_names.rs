//! Names of the lab for errors of the compiler: the path of an item, the construction of a value,
//! and the lab's name for a method of another library.

/// Modules that `use epsilab::prelude::*;` imports.
pub const PRELUDE_MODULES: [&str; 9] =
    ["audit", "data", "figures", "lab", "mask", "models", "nn", "privacy", "recipes"];
/// Other modules of the library.
pub const OTHER_MODULES: [&str; 6] = ["device", "grid", "methods", "optim", "show", "tuning"];

/// Declares `ITEMS`, and uses each item when tests are compiled.
macro_rules! items {
    ($($module:ident: $($item:ident)*;)*) => {
        /// Items that a notebook may use and that the prelude does not have, by module.
        const ITEMS: &[(&str, &[&str])] = &[$((stringify!($module), &[$(stringify!($item)),*])),*];

        #[cfg(test)]
        mod exist {
            $(
                #[allow(unused_imports)]
                use epsilab::$module::{$($item),*};
            )*
        }
    };
}

items! {
    nn: AvgPool2dSpec BackpropClippedSpec Conv2dSpec DropoutSpec EmbeddingSpec Flatten
        GlobalAvgPool GroupNormSpec GroupSpec Initialisation LayerNormSpec LinearSpec LstmSpec
        MaxPool2dSpec MeanOverTime Relu ResidualSpec Selu Tanh TransferBuilder ZeroPad2dSpec;
    methods: DataLoader Sampling;
    optim: CycleMode AdamParams;
    mask: FreezeConfig PrePrune SignalSettings;
    data: Augment Population PublicData TextOptions Vocabulary;
    engine: Bound GaussianNoise;
    privacy: TightestAccountant Pld Rdp RunReleases Stages Zcdp;
    show: MimeBundle Chart Coverage LiveRun Panel Series Table;
    train: Observer Progress NoopObserver;
    tuning: Trial TuningStep;
}

/// Names of layers in other libraries and in files of this one, with the specification that
/// describes them in a model.
const LAYER_SPECS: [(&str, &str); 9] = [
    ("AvgPool2d", "AvgPool2dSpec"),
    ("Conv2d", "Conv2dSpec"),
    ("Dropout", "DropoutSpec"),
    ("Embedding", "EmbeddingSpec"),
    ("GroupNorm", "GroupNormSpec"),
    ("LayerNorm", "LayerNormSpec"),
    ("Linear", "LinearSpec"),
    ("Lstm", "LstmSpec"),
    ("MaxPool2d", "MaxPool2dSpec"),
];

/// Returns the path of an item of the library, or of the description of a layer.
pub fn import_path(name: &str) -> Option<String> {
    let name = LAYER_SPECS.iter().find(|(layer, _)| *layer == name).map_or(name, |(_, spec)| *spec);
    let (module, _) = ITEMS.iter().find(|(_, names)| names.contains(&name))?;
    Some(format!("epsilab::{module}::{name}"))
}

/// Labels of values of the wrong type, and advice to make the right one.
const TYPE_MISMATCH_ADVICE: [(&str, &str); 8] = [
    (
        "expected `Optimizer`",
        "an optimizer is a value: `Optimizer::adam()`, `Optimizer::adamw()` or \
         `Optimizer::Sgd { momentum: 0.9 }`",
    ),
    ("expected `&ImageOptions`", "the size of the images is an option: `&ImageOptions::size(24)`"),
    (
        "expected `ClipRule`",
        "a rule with its clip norm: `ClipRule::flat(0.1)`, `ClipRule::auto_s(0.1)`; `.clip(0.1)` \
         is flat",
    ),
    (
        "expected `LearningRate`",
        "a number is set by `.learning_rate(0.5)`; a schedule is a value, such as \
         `LearningRate::Constant`",
    ),
    (
        "expected `Dropping`",
        "what is dropped is a rule with its rate: `Dropping::random(0.3)`, \
         `Dropping::magnitude(0.3)`",
    ),
    ("expected `(&str, &", "each has a name: `&[(\"first\", &first), (\"second\", &second)]`"),
    (
        "expected `&ModelBuilder<",
        "each seed builds its own model: pass the builder, without `.build()?`",
    ),
    ("`f64: From<&str>`", "a number is expected: write it without quotes"),
];

/// Returns advice for the label of a value of the wrong type.
pub fn type_mismatch_advice(label: &str) -> Option<&'static str> {
    TYPE_MISMATCH_ADVICE
        .iter()
        .find(|(expected, _)| label.contains(expected))
        .map(|(_, advice)| *advice)
}

/// Methods of other libraries and guesses, with advice on the lab's own: type, names, advice.
const METHOD_ADVICE: [(&str, &[&str], &str); 9] = [
    (
        "epsilab::methods::",
        &["epsilon", "target_epsilon", "delta"],
        "epsilon and delta are a target: `.target(Epsilon(3.0), Delta(1e-5))`",
    ),
    (
        "epsilab::methods::",
        &["clip_norm", "max_grad_norm", "l2_norm_clip", "clipping_norm"],
        "the clip norm is set by `.clip(0.1)`",
    ),
    ("epsilab::methods::", &["lr"], "the learning rate is set by `.learning_rate(0.5)`"),
    (
        "epsilab::methods::",
        &["sigma", "noise"],
        "the noise is set by `.noise_multiplier(1.1)`, or by `.target(Epsilon(3.0), Delta(1e-5))`",
    ),
    (
        "epsilab::methods::",
        &["mask", "prune", "masked"],
        "a mask is given by `.pre_prune(&mask)`, a mask of each step by \
         `.drop_gradients(Dropping::random(0.3))`",
    ),
    ("epsilab::methods::", &["fit", "run"], "training is `.train(&model, &data)?`"),
    (
        "epsilab::nn::Model",
        &["train", "fit", "compile"],
        "a method trains a model: `DpSgd::new().target(Epsilon(3.0), Delta(1e-5)).train(&model, \
         &data)?`",
    ),
    ("epsilab::prelude::Run", &["plot", "figure", "chart", "display"], "`run.show()` draws it"),
    (
        "Option<SelectionLog>",
        &["show", "evcxr_display", "bundle"],
        "a dense run has no log of selections: `run.selections()?` draws it, or reports that",
    ),
];

/// Returns advice for a method that the lab has under another name. `message` is that of the
/// compiler.
pub fn unknown_method_advice(message: &str, name: &str) -> Option<&'static str> {
    // The compiler names it with its path where the cell does not import it.
    let message = message.replace("epsilab::mask::SelectionLog", "SelectionLog");
    let is_on = |kind: &str| message.contains(&format!("`{kind}"));
    let mut entries = METHOD_ADVICE.iter();
    entries
        .find(|(kind, names, _)| is_on(kind) && names.contains(&name))
        .map(|(.., advice)| *advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_of_other_libraries_have_a_name_here() {
        let message = "no method named `max_grad_norm` found for struct `epsilab::methods::DpSgd`";
        let advice = unknown_method_advice(message, "max_grad_norm").expect("advice");
        assert!(advice.contains(".clip(0.1)"), "{advice}");
        assert_eq!(unknown_method_advice(message, "batchsize"), None);
        let other = "no method named `epsilon` found for struct `Vec<u8>` in the current scope";
        assert_eq!(unknown_method_advice(other, "epsilon"), None);
        let option = "no method named `show` found for enum `Option<SelectionLog>`";
        assert!(
            unknown_method_advice(option, "show").is_some_and(|a| a.contains("run.selections()?"))
        );
        let model = "no method named `train` found for struct `epsilab::nn::Model` in the";
        assert!(unknown_method_advice(model, "train").is_some_and(|a| a.contains("DpSgd::new()")));
    }

    #[test]
    fn values_of_the_wrong_type_are_explained_by_what_is_expected() {
        let found = |label| type_mismatch_advice(label).unwrap_or_default();
        assert!(found("expected `Optimizer`, found `&str`").contains("Optimizer::adam()"));
        assert!(found("expected `(&str, &Run)`, found `&Run`").contains("a name"));
        assert!(found("the trait bound `f64: From<&str>` is not satisfied").contains("quotes"));
        assert_eq!(type_mismatch_advice("expected `u64`, found `Optimizer`"), None);
    }

    #[test]
    fn items_outside_of_the_prelude_are_found_and_layers_by_their_usual_names() {
        assert_eq!(import_path("Flatten").unwrap(), "epsilab::nn::Flatten");
        assert_eq!(import_path("Linear").unwrap(), "epsilab::nn::LinearSpec");
        assert_eq!(import_path("DpSgd"), None);
        assert!(LAYER_SPECS.iter().all(|(layer, _)| import_path(layer).is_some()));
    }

    /// Checks that the modules in the advice are those of the prelude: a module that it no longer
    /// exports must not be advised.
    #[test]
    fn the_prelude_has_the_modules_that_are_advised() {
        #[allow(unused_imports)]
        use epsilab::prelude::{audit, data, figures, lab, mask, models, nn, privacy, recipes};
        #[allow(unused_imports)]
        use epsilab::{device, grid, methods, optim, show, tuning};
    }
}
