//! What a card does, done the same way on the CPU: each check takes the device as a parameter.

mod data;
mod files;

/// A test on the CPU for each check.
macro_rules! on_the_cpu {
    ($($room:ident: $($check:ident)*;)*) => {
        $(mod $room {
            $(#[test]
            fn $check() -> epsilab::Result<()> {
                crate::$room::$check(&epsilab::burn::prelude::Device::flex())
            })*
        })*
    };
}

mod on_the_cpu {
    on_the_cpu! {
        data: batches_from_memory strange_tokens predictions ties_and_nothing copies_to_the_host;
        files: batches_from_files a_file_that_breaks predictions_from_files;
    }
}
