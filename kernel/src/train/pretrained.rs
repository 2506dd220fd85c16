//! `--pretrained`: the file of a model, or of another library's weights, that a run starts from.

use std::path::PathBuf;

use epsilab::nn::{Model, WeightLayout, models};
use epsilab::{Error, ErrorKind, Result};

use crate::options;

/// Options of the file.
#[derive(clap::Args, Clone, Debug, PartialEq)]
pub struct PretrainedArgs {
    /// Start from the model of this file, with a new head for the data; --out and model.save(path)
    /// write such files. With --layout, from weights of another library
    #[arg(long, value_name = "FILE")]
    pretrained: Option<PathBuf>,
    /// The file of --pretrained holds weights of --model in safetensors or PyTorch's format, under
    /// other names; the head is new: timm-resnetv2 (BiT, for bit_resnet50), de-wide-resnet (for
    /// de_wide_resnet_28_10 and others), torchvision (for torchvision_resnet18 and others; needs
    /// --public), own (the names of the lab)
    #[arg(long, value_name = "NAME")]
    layout: Option<String>,
    /// Part of the checkpoint of --pretrained that holds the weights, such as model. or
    /// state_dict_ema.; a usual one is found without it
    #[arg(long, value_name = "PREFIX", requires = "layout")]
    prefix: Option<String>,
    /// The data that the weights of --pretrained depend on, such as ImageNet-21k, which are assumed
    /// to be public
    #[arg(long, value_name = "NAME")]
    public: Option<String>,
}

/// Constructor of a layout.
type LayoutConstructor = fn() -> WeightLayout;

/// Layout with statistics of the pre-training data, which must be public.
const TORCHVISION: &str = "torchvision";

/// The layouts by name.
const LAYOUTS: [(&str, LayoutConstructor); 4] = [
    ("timm-resnetv2", WeightLayout::timm_resnetv2),
    ("de-wide-resnet", WeightLayout::de_wide_resnet),
    (TORCHVISION, WeightLayout::torchvision),
    ("own", WeightLayout::native),
];

impl PretrainedArgs {
    /// Checks the options, given those of other starts and whether each is used.
    ///
    /// # Errors
    /// Kind `Setting` for names that are unknown and options that contradict each other.
    pub fn check(&self, others: &[(&str, bool)]) -> Result<()> {
        let layout = self.layout()?;
        let file_options =
            [("--layout", self.layout.is_some()), ("--public", self.public.is_some())];
        if let Some((option, _)) = file_options.iter().find(|(_, given)| *given && !self.is_given())
        {
            return Err(Error::setting(
                option,
                "given",
                "the option describes the file of --pretrained",
            )
            .fix("add --pretrained FILE, or leave it out"));
        }
        if self.layout.as_deref() == Some(TORCHVISION) && self.public.is_none() {
            let why = "BatchNorm has statistics of the data that the weights were trained on, \
                       which a private run takes for public";
            return Err(Error::new(
                ErrorKind::Setting,
                "--layout torchvision without --public",
                why,
            )
            .fix("name these data if they are public: --public ImageNet-1k"));
        }
        let used = |name: &str| others.iter().any(|(option, used)| *option == name && *used);
        if layout.is_some() && !used("--model") {
            let why = "the file does not state its model";
            return Err(Error::new(ErrorKind::Setting, "--layout without --model", why)
                .fix("add --model, such as --model bit_resnet50 for timm-resnetv2"));
        }
        let described_elsewhere =
            |option: &str| layout.is_some() && matches!(option, "--model" | "--activation");
        let also = others
            .iter()
            .find(|(option, used)| *used && self.is_given() && !described_elsewhere(option));
        let Some((option, _)) = also else { return Ok(()) };
        let what = format!("--pretrained and {option}");
        let (why, fix) = match *option {
            "--pretrain-on" => ("a run has one initial model", "leave out one of the two"),
            _ => (
                "the file states the model",
                "leave out one of the two, or add --layout for weights of another library",
            ),
        };
        Err(Error::new(ErrorKind::Setting, what, why).fix(fix))
    }

    /// Returns whether a file is given.
    pub fn is_given(&self) -> bool {
        self.pretrained.is_some()
    }

    /// Returns the model of the file for the data, if one is given. `initial` makes the model of
    /// --model, and `transferred` gives a model a new head.
    ///
    /// # Errors
    /// As reading the file, and those of the functions.
    pub fn model(
        &self,
        initial: impl FnOnce() -> Result<Model>,
        transferred: impl FnOnce(&Model) -> Result<Model>,
    ) -> Result<Option<Model>> {
        let Some(path) = &self.pretrained else { return Ok(None) };
        let model = match self.layout()? {
            None => transferred(&models::load(path)?)?,
            Some(layout) => {
                let layout =
                    self.prefix.iter().fold(layout, |layout, prefix| layout.prefix(prefix));
                let loaded = initial()?.load_weights(path, &layout.new_head())?;
                eprintln!("{}", loaded.report());
                loaded.model()
            }
        };
        Ok(Some(self.public.iter().fold(model, |model, name| model.assumed_public(name))))
    }

    fn layout(&self) -> Result<Option<WeightLayout>> {
        let named = self.layout.as_deref();
        let make = named.map(|name| options::lookup("--layout", name, &LAYOUTS)).transpose()?;
        Ok(make.map(|make| make()))
    }
}
