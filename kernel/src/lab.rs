//! Library that cells link: all of `epsilab` as one Rust dylib, and the hooks for the process that
//! runs the cells.

pub use epsilab::*;

/// Functions that run inside the cell process. Only code linked to this dylib shares the cells'
/// copy of the standard library, with its output buffer and its panic hook.
#[cfg(unix)]
#[doc(hidden)]
pub mod cell_process {
    use std::backtrace::Backtrace;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::unix::net::UnixStream;
    use std::panic::PanicHookInfo;
    use std::sync::atomic::{AtomicU8, Ordering};
    use std::sync::{LazyLock, Mutex, PoisonError};
    use std::time::Duration;

    use epsilab::train::interrupt::{self, InterruptGuard};

    pub const STDOUT: u8 = 1;
    pub const STDERR: u8 = 2;
    /// Stream that a cell printed to last; 0 before the first print.
    static LAST_STREAM: AtomicU8 = AtomicU8::new(0);

    /// Maximum time to wait for the kernel before printing anyway.
    const SYNC_TIMEOUT: Duration = Duration::from_secs(2);

    /// Writes out buffered standard output.
    #[unsafe(no_mangle)]
    pub extern "C" fn epsilab_flush_stdout() {
        let _ = std::io::stdout().flush();
    }

    /// Installs the panic hook. `EPSILAB_BACKTRACE` keeps the standard one with its backtrace.
    #[unsafe(no_mangle)]
    extern "C" fn epsilab_set_panic_hook() {
        if std::env::var_os("EPSILAB_BACKTRACE").is_none() {
            std::panic::set_hook(Box::new(report_panic));
        }
    }

    /// Guard through which the running cell listens to interrupts.
    static INTERRUPT_LISTENER: Mutex<Option<InterruptGuard>> = Mutex::new(None);

    /// Prepares the run of a cell: drops an earlier interrupt, and a panic hook that an earlier
    /// cell set, which may hide why this one fails.
    #[unsafe(no_mangle)]
    extern "C" fn epsilab_begin_cell() {
        epsilab_set_panic_hook();
        epsilab::show::begin_cell();
        *INTERRUPT_LISTENER.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(InterruptGuard::start());
    }

    /// Marks the end of a cell, which drops the guard of interrupts.
    #[unsafe(no_mangle)]
    extern "C" fn epsilab_end_cell() {
        *INTERRUPT_LISTENER.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Unwinds the cell after an interrupt, so that the variables that the loop does not move are
    /// kept; called at the head of every loop body of a cell.
    #[inline]
    pub fn safepoint() {
        if interrupt::should_unwind_cell() {
            unwind_cell();
        }
    }

    #[cold]
    fn unwind_cell() {
        // A destructor that unwinds during a panic would end the process.
        if !std::thread::panicking() {
            std::panic::resume_unwind(Box::new("the cell was stopped"));
        }
    }

    /// Waits, if the cell changes the stream that it prints to, until the kernel has published the
    /// text before. Called before every print: the streams are two pipes, and nothing orders a
    /// read of one after a read of the other.
    pub fn sync_on_stream_switch(stream: u8) {
        let last = LAST_STREAM.swap(stream, Ordering::SeqCst);
        if last != stream && last != 0 {
            epsilab_flush_stdout();
            sync_with_kernel();
        }
    }

    fn sync_with_kernel() {
        /// Connection to the side channel; `None` if it can't be opened or has failed.
        static CHANNEL: LazyLock<Mutex<Option<BufReader<UnixStream>>>> =
            LazyLock::new(|| Mutex::new(connect().ok()));
        let mut channel = CHANNEL.lock().unwrap_or_else(PoisonError::into_inner);
        channel.take_if(|stream| send_sync_request(stream).is_err());
    }

    fn connect() -> std::io::Result<BufReader<UnixStream>> {
        let path = std::env::var_os("EPSILAB_DISPLAY").unwrap_or_default();
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(SYNC_TIMEOUT))?;
        stream.set_write_timeout(Some(SYNC_TIMEOUT))?;
        Ok(BufReader::new(stream))
    }

    fn send_sync_request(stream: &mut BufReader<UnixStream>) -> std::io::Result<()> {
        stream.get_mut().write_all(b"{\"kind\":\"sync\"}\n")?;
        let mut reply = String::new();
        match stream.read_line(&mut reply)? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Prints a panic as the standard hook does, but names the line of the cell that led to it.
    fn report_panic(info: &PanicHookInfo<'_>) {
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("<unnamed>");
        let message = info.payload_as_str().unwrap_or("Box<dyn Any>");
        let location = info.location().map_or("an unknown place".into(), ToString::to_string);
        let is_elsewhere = info.location().is_some_and(|location| location.file() != CELL_SOURCE);
        let (at, inside) = match is_elsewhere.then(find_cell_frame).flatten() {
            Some(line) => (line, format!("  panicked in {location}\n")),
            None => (location, String::new()),
        };
        let text = format!("\nthread '{thread}' panicked at {at}:\n{message}\n{inside}");
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }

    /// Source file of a cell's crate, as the compiler was given it.
    const CELL_SOURCE: &str = "src/lib.rs";

    /// Returns the innermost frame that lies in a cell: `src/lib.rs:LINE:COLUMN`.
    ///
    /// A forked process looks for it. The standard library lists the loaded libraries once per
    /// process, at the first backtrace, and would not find the libraries of later cells.
    fn find_cell_frame() -> Option<String> {
        let (mut read, mut write) = std::io::pipe().ok()?;
        // SAFETY: plain system calls. The child only reads memory, writes to the pipe and ends, at
        // the latest by its alarm.
        unsafe {
            match libc::fork() {
                -1 => None,
                0 => {
                    libc::signal(libc::SIGALRM, libc::SIG_DFL);
                    libc::alarm(SYMBOLISE_TIMEOUT_SECS);
                    let line = parse_cell_frame(&Backtrace::force_capture().to_string());
                    let _ = write.write_all(line.unwrap_or_default().as_bytes());
                    libc::_exit(0)
                }
                child => {
                    drop(write);
                    let mut line = String::new();
                    let _ = read.read_to_string(&mut line);
                    libc::waitpid(child, std::ptr::null_mut(), 0);
                    Some(line).filter(|line| !line.is_empty())
                }
            }
        }
    }

    /// Time limit in seconds for reading symbols.
    const SYMBOLISE_TIMEOUT_SECS: u32 = 5;

    /// Returns the first place in a backtrace that lies in a cell. Only cells and the standard
    /// library have line tables.
    fn parse_cell_frame(backtrace: &str) -> Option<String> {
        let places = backtrace.lines().filter_map(|line| line.trim_start().strip_prefix("at "));
        let mut outside_std = places.filter(|location| !location.contains("/library/"));
        outside_std.find_map(|location| Some(location[location.find(CELL_SOURCE)?..].to_owned()))
    }

    /// Text of a value that is shown in `Debug` form.
    pub mod debug_text {
        use std::sync::{Mutex, PoisonError};

        static LAST: Mutex<Option<String>> = Mutex::new(None);

        /// Stores the text of a value.
        pub fn store(text: String) {
            *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        }

        /// Removes and returns the text of the value that was displayed last.
        pub fn take() -> Option<String> {
            LAST.lock().unwrap_or_else(PoisonError::into_inner).take()
        }
    }

    /// Gives common types, in the crate of a cell, the method that evcxr calls to show a value.
    /// Not all types: a `Box<Figure>` shows its figure by a method of `Figure`. A trait of this
    /// library would be named in the compiler's errors where it is not in scope.
    #[macro_export]
    macro_rules! plain_values {
        () => {
            trait EpsilabPlain: ::std::fmt::Debug {
                fn evcxr_display(&self) {
                    $crate::cell_process::debug_text::store(::std::format!("{self:?}"));
                }
            }
            $crate::plain_values!((), bool, char, str, f32, f64, u8, u16, u32, u64, u128, usize);
            $crate::plain_values!(i8, i16, i32, i64, i128, isize, ::std::string::String);
            $crate::plain_values!(::std::path::PathBuf, ::std::time::Duration);
            $crate::plain_values!(generic [T] ::std::vec::Vec<T>, [T] [T], [T] ::std::option::Option<T>,
                [T] ::std::result::Result<T, ::std::string::String>,
                [T] ::std::result::Result<T, ::std::io::Error>,
                [T] ::std::result::Result<T, ::std::num::ParseIntError>,
                [T] ::std::result::Result<T, ::std::num::ParseFloatError>,
                [T] ::std::ops::Range<T>, [A] (A,),
                [A, B] (A, B), [A, B, C] (A, B, C), [A, B, C, D] (A, B, C, D),
                [K, V] ::std::collections::BTreeMap<K, V>, [T] ::std::collections::BTreeSet<T>,
                [T] ::std::collections::VecDeque<T>, [K, V] ::std::collections::HashMap<K, V>,
                [T] ::std::collections::HashSet<T>);
            impl<T: ::std::fmt::Debug, const N: usize> EpsilabPlain for [T; N] {}
            $crate::plain_values!(results $crate::Error, $crate::privacy::Error);
            // For the values of accounting, which have no methods of the lab.
            #[allow(unused_imports)]
            use $crate::lab::Show as _;
        };
        (results $($error:ty),+) => {$(
            impl<T: ::std::fmt::Debug + $crate::lab::Show> EpsilabPlain
                for ::std::result::Result<T, $error>
            {
                fn evcxr_display(&self) {
                    $crate::lab::display_result(self);
                }
            }
        )+};
        (generic $([$($part:ident),*] $type:ty),+) => {
            $(impl<$($part: ::std::fmt::Debug),*> EpsilabPlain for $type {})+
        };
        ($($type:ty),+) => { $(impl EpsilabPlain for $type {})+ };
    }

    /// Sizes of variables, for the command `:vars`.
    pub mod sizes {
        use epsilab::data::Dataset;
        use epsilab::nn::Model;
        use epsilab::show::format::pluralise;

        /// Variable whose size is requested. The compiler chooses [`KnownSize`] where it can.
        pub struct SizeOf<'a, T>(pub &'a T);

        /// Size of a value that knows its content.
        pub trait KnownSize {
            fn size(&self) -> String;
        }

        /// Size of any other value, without what it points to.
        pub trait ShallowSize {
            fn size(&self) -> String;
        }

        impl<T> ShallowSize for &SizeOf<'_, T> {
            fn size(&self) -> String {
                pluralise(std::mem::size_of::<T>(), "byte")
            }
        }

        impl<T> KnownSize for SizeOf<'_, Vec<T>> {
            fn size(&self) -> String {
                let bytes = self.0.capacity() * std::mem::size_of::<T>();
                format!("{}, {}", pluralise(self.0.len(), "element"), pluralise(bytes, "byte"))
            }
        }

        impl KnownSize for SizeOf<'_, String> {
            fn size(&self) -> String {
                pluralise(self.0.capacity(), "byte")
            }
        }

        impl KnownSize for SizeOf<'_, Dataset> {
            fn size(&self) -> String {
                self.0.to_string()
            }
        }

        impl KnownSize for SizeOf<'_, Model> {
            fn size(&self) -> String {
                pluralise(self.0.num_parameters(), "parameter")
            }
        }
    }

    // The kernel puts these macros into the scope of every cell, in place of the standard ones.

    #[macro_export]
    macro_rules! println {
        ($($args:tt)*) => {{
            $crate::cell_process::sync_on_stream_switch($crate::cell_process::STDOUT);
            ::std::println!($($args)*)
        }};
    }

    #[macro_export]
    macro_rules! print {
        ($($args:tt)*) => {{
            $crate::cell_process::sync_on_stream_switch($crate::cell_process::STDOUT);
            ::std::print!($($args)*);
            // The standard library may still buffer the text.
            $crate::cell_process::epsilab_flush_stdout()
        }};
    }

    #[macro_export]
    macro_rules! eprintln {
        ($($args:tt)*) => {{
            $crate::cell_process::sync_on_stream_switch($crate::cell_process::STDERR);
            ::std::eprintln!($($args)*)
        }};
    }

    #[macro_export]
    macro_rules! eprint {
        ($($args:tt)*) => {{
            $crate::cell_process::sync_on_stream_switch($crate::cell_process::STDERR);
            ::std::eprint!($($args)*)
        }};
    }

    #[macro_export]
    macro_rules! dbg {
        ($($args:tt)*) => {
            // A tuple and not a block: temporaries in the arguments live as long as with `dbg!`.
            (
                $crate::cell_process::sync_on_stream_switch($crate::cell_process::STDERR),
                ::std::dbg!($($args)*),
            )
                .1
        };
    }
}
