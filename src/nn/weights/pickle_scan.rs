//! Scan of a pickle for the imports that unpickling it would make, without unpickling it.
//!
//! A pickle is a program for a stack machine (Python's `pickletools` documents its instructions).
//! It can import any function and call it. The reader of PyTorch files here calls nothing, but a
//! file that asks for more than tensors is no file of weights, and other programs would run it.

use std::collections::HashMap;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

/// Imports and tensors of a pickle.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PickleScan {
    /// The imports that are not part of PyTorch's form of tensors, each once.
    pub(super) unknown_imports: Vec<String>,
    /// The imports of plain values, which are skipped, each once.
    pub(super) skipped_imports: Vec<String>,
    /// The number of references to the values of a tensor.
    pub(super) tensor_count: usize,
}

impl PickleScan {
    /// Adds the content of another pickle of the file.
    pub(super) fn add(&mut self, other: Self) {
        self.tensor_count += other.tensor_count;
        for import in other.unknown_imports.into_iter().chain(other.skipped_imports) {
            self.add_import(import);
        }
    }

    fn add_import(&mut self, import: String) {
        let kind = match ImportKind::from_import(&import) {
            ImportKind::Tensor => return,
            ImportKind::Value => &mut self.skipped_imports,
            ImportKind::Code => &mut self.unknown_imports,
        };
        if !kind.contains(&import) {
            kind.push(import);
        }
    }
}

/// Kind of an import of a pickle.
#[derive(Debug, PartialEq, Eq)]
enum ImportKind {
    /// A part of a tensor or of a plain container.
    Tensor,
    /// A plain value that training programs store beside tensors. It is skipped.
    Value,
    /// Anything else.
    Code,
}

/// Longest text that is stored: names of modules and functions are shorter.
const MAX_NAME_LEN: u64 = 1024;
/// Instructions without an argument: they take their values from the stack.
const WITHOUT_ARGUMENT: &[u8] = b"(012NRb}d]l)tsuae\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92";
/// Largest number of values that a pickle may memoise. The largest networks have some thousands.
const MAX_MEMO_ENTRIES: usize = 1_000_000;

/// Reads one pickle up to its end.
///
/// # Errors
/// If it ends early, or has an instruction that PyTorch's files do not use.
pub(super) fn scan(reader: &mut impl BufRead) -> io::Result<PickleScan> {
    let mut scanner = Scanner { reader, memo: HashMap::new(), last: [None, None] };
    let mut scan = PickleScan::default();
    loop {
        let code = scanner.byte()?;
        if code == b'.' {
            return Ok(scan);
        }
        let import = match scanner.instruction(code)? {
            Instruction::Import(name) => name,
            Instruction::Tensor => {
                scan.tensor_count += 1;
                continue;
            }
            Instruction::Other => continue,
        };
        scan.add_import(import);
    }
}

enum Instruction {
    Import(String),
    Tensor,
    Other,
}

struct Scanner<'a, R> {
    reader: &'a mut R,
    /// Texts among the values that the pickle memoises, by number.
    memo: HashMap<u32, Option<Rc<str>>>,
    /// The two topmost values if the last instructions pushed texts.
    last: [Option<Rc<str>>; 2],
}

impl<R: BufRead> Scanner<'_, R> {
    fn instruction(&mut self, code: u8) -> io::Result<Instruction> {
        match code {
            // Texts, and instructions that leave the topmost values as they are.
            b'V' => {
                let text = self.line()?;
                self.push(Some(text.into()));
            }
            b'U' | 0x8c => self.text(1)?,
            b'T' | b'X' => self.text(4)?,
            0x8d => self.text(8)?,
            0x80 => self.skip(1)?,
            0x95 => self.skip(8)?,
            b'g' | b'h' | b'j' => {
                let index = self.index(code)?;
                self.push(self.memo.get(&index).cloned().flatten());
            }
            b'p' | b'q' | b'r' => {
                let index = self.index(code)?;
                self.memoize(index)?;
            }
            0x94 => self.memoize(self.memo.len() as u32)?,
            _ => return self.other(code),
        }
        Ok(Instruction::Other)
    }

    /// Handles the instructions that make the topmost values something else than texts.
    fn other(&mut self, code: u8) -> io::Result<Instruction> {
        let last = std::mem::take(&mut self.last);
        match code {
            b'c' => return Ok(Instruction::Import(format!("{}.{}", self.line()?, self.line()?))),
            0x93 => {
                let [Some(module), Some(name)] = last else {
                    return Ok(Instruction::Import("a name that is computed".to_owned()));
                };
                return Ok(Instruction::Import(format!("{module}.{name}")));
            }
            b'Q' => return Ok(Instruction::Tensor),
            b'P' => {
                self.line()?;
                return Ok(Instruction::Tensor);
            }
            b'I' | b'L' | b'F' => drop(self.line()?),
            b'K' => self.skip(1)?,
            b'M' => self.skip(2)?,
            b'J' => self.skip(4)?,
            b'G' => self.skip(8)?,
            0x8a | b'C' => self.counted(1)?,
            0x8b | b'B' => self.counted(4)?,
            0x8e | 0x96 => self.counted(8)?,
            code if WITHOUT_ARGUMENT.contains(&code) => {}
            code => {
                let why = format!("PyTorch writes no pickle with the byte 0x{code:02x} here");
                return Err(invalid(why));
            }
        }
        Ok(Instruction::Other)
    }

    fn push(&mut self, text: Option<Rc<str>>) {
        self.last.swap(0, 1);
        self.last[1] = text;
    }

    /// Memoises the topmost value under this number.
    fn memoize(&mut self, index: u32) -> io::Result<()> {
        if self.memo.len() > MAX_MEMO_ENTRIES {
            return Err(invalid(format!("the pickle keeps more than {MAX_MEMO_ENTRIES} values")));
        }
        self.memo.insert(index, self.last[1].clone());
        Ok(())
    }

    fn byte(&mut self) -> io::Result<u8> {
        Ok(self.number(1)? as u8)
    }

    /// Reads an unsigned little-endian number of this many bytes.
    fn number(&mut self, bytes: usize) -> io::Result<u64> {
        let mut all = [0; 8];
        self.reader.read_exact(&mut all[..bytes])?;
        Ok(u64::from_le_bytes(all))
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        if io::copy(&mut self.reader.by_ref().take(bytes), &mut io::sink())? == bytes {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    /// Skips bytes after their number, which has `size` bytes.
    fn counted(&mut self, size: usize) -> io::Result<()> {
        let bytes = self.number(size)?;
        self.skip(bytes)
    }

    /// Pushes a text after its length, which has `size` bytes.
    fn text(&mut self, size: usize) -> io::Result<()> {
        let bytes = self.number(size)?;
        if bytes > MAX_NAME_LEN {
            self.push(None);
            return self.skip(bytes);
        }
        let mut text = vec![0; bytes as usize];
        self.reader.read_exact(&mut text)?;
        self.push(Some(String::from_utf8_lossy(&text).into()));
        Ok(())
    }

    /// Reads the number of a memoised value.
    fn index(&mut self, code: u8) -> io::Result<u32> {
        match code {
            b'h' | b'q' => Ok(self.number(1)? as u32),
            b'j' | b'r' => Ok(self.number(4)? as u32),
            _ => self.line()?.parse().map_err(|_| invalid("the number of a kept value is none")),
        }
    }

    /// Reads the text up to the end of the line.
    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.reader.by_ref().take(MAX_NAME_LEN).read_until(b'\n', &mut line)?;
        match line.pop() {
            Some(b'\n') => Ok(String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned()),
            _ if (line.len() as u64) < MAX_NAME_LEN - 1 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Err(invalid("a line of its pickle is too long")),
        }
    }
}

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

impl ImportKind {
    fn from_import(import: &str) -> Self {
        if is_part_of_tensor(import) {
            Self::Tensor
        } else if is_plain_value(import) {
            Self::Value
        } else {
            Self::Code
        }
    }
}

/// Returns whether Python writes this import for a plain value: settings of a command line,
/// numbers of numpy with their types, paths and names of devices.
fn is_plain_value(import: &str) -> bool {
    const VALUES: [&str; 12] = [
        "argparse.Namespace",
        "numpy.core.multiarray.scalar",
        "numpy._core.multiarray.scalar",
        "numpy.dtype",
        "pathlib.Path",
        "pathlib.PosixPath",
        "pathlib.WindowsPath",
        "pathlib.PurePosixPath",
        "pathlib.PureWindowsPath",
        "pathlib._local.PosixPath",
        "pathlib._local.WindowsPath",
        "torch.device",
    ];
    let dtype = import.strip_prefix("numpy.dtypes.").and_then(|name| name.strip_suffix("DType"));
    VALUES.contains(&import)
        || dtype.is_some_and(|name| name.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Returns whether PyTorch writes this import for tensors and plain containers.
fn is_part_of_tensor(import: &str) -> bool {
    const CALLS: [&str; 13] = [
        // Bytes, in protocol 2.
        "_codecs.encode",
        "collections.OrderedDict",
        "builtins.set",
        "builtins.frozenset",
        "__builtin__.set",
        "torch._utils._rebuild_tensor",
        "torch._utils._rebuild_tensor_v2",
        "torch._utils._rebuild_tensor_v3",
        "torch._utils._rebuild_parameter",
        "torch._utils._rebuild_parameter_with_state",
        "torch._tensor._rebuild_from_type_v2",
        "torch.nn.parameter.Parameter",
        "torch.Size",
    ];
    const TYPES: [&str; 13] = [
        "float16", "float32", "float64", "bfloat16", "int8", "int16", "int32", "int64", "uint8",
        "uint16", "uint32", "uint64", "bool",
    ];
    let is_storage = |name: &str| {
        let kind = name.strip_suffix("Storage");
        kind.is_some_and(|kind| kind.bytes().all(|b| b.is_ascii_alphanumeric()))
    };
    let of_torch = import.strip_prefix("torch.");
    CALLS.contains(&import)
        || of_torch.is_some_and(|name| {
            TYPES.contains(&name) || is_storage(name.strip_prefix("storage.").unwrap_or(name))
        })
}
