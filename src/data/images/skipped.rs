//! Entries of folders that a reader of images skips.

use std::ops::AddAssign;

use crate::data::digest::pluralise;

/// Numbers of the entries of a folder that were skipped, by the reason.
#[derive(Clone, Copy, Default)]
pub(super) struct SkippedEntries {
    /// Entries whose names begin with a dot, and folders of the operating system.
    pub(super) hidden: usize,
    /// Images that are not in a class folder.
    pub(super) unlabelled: usize,
    /// Links to folders inside a class.
    pub(super) linked_folders: usize,
    /// Other files that are no images.
    pub(super) others: usize,
}

impl SkippedEntries {
    /// Returns the sentence on the entries; `None` if there are none.
    pub(super) fn sentence(&self) -> Option<String> {
        let are = if self.others == 1 { "is" } else { "are" };
        let no_image = format!("that {are} no JPEG, PNG or WebP");
        let counted = [
            (self.others, "entry", no_image.as_str()),
            (self.unlabelled, "image", "outside the class folders"),
            (self.linked_folders, "link", "to a folder"),
            (self.hidden, "hidden entry", "(such as .DS_Store, __MACOSX)"),
        ];
        let found = counted.into_iter().filter(|(count, ..)| *count > 0);
        let found: Vec<String> = found
            .map(|(count, noun, which)| format!("{} {which}", pluralise(count, noun)))
            .collect();
        (!found.is_empty()).then(|| format!("Skipped: {}.", found.join(", ")))
    }
}

impl AddAssign for SkippedEntries {
    fn add_assign(&mut self, other: Self) {
        self.hidden += other.hidden;
        self.unlabelled += other.unlabelled;
        self.linked_folders += other.linked_folders;
        self.others += other.others;
    }
}
