//! Files by path: those that the Python package `gguf` wrote (`fixtures/gguf/make_files.py`), split ones, and paths
//! that lead to no usable file.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers included")]

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;
use zinc_gguf::{Array, DType, Error, Gguf, Value, Writer, quants};

#[test]
fn metadata_of_every_type() {
    let file = Gguf::open(&fixture("all.gguf")).unwrap();
    let metadata = file.metadata();
    assert_eq!(file.version(), 3);
    assert_eq!(metadata.get("t.u8"), Some(&Value::U8(200)));
    assert_eq!(metadata.get("t.i8"), Some(&Value::I8(-100)));
    assert_eq!(metadata.get("t.u16"), Some(&Value::U16(60_000)));
    assert_eq!(metadata.get("t.i16"), Some(&Value::I16(-30_000)));
    assert_eq!(metadata.get("t.u32"), Some(&Value::U32(4_000_000_000)));
    assert_eq!(metadata.get("t.i32"), Some(&Value::I32(-2_000_000_000)));
    assert_eq!(metadata.get("t.u64"), Some(&Value::U64(1 << 63)));
    assert_eq!(metadata.get("t.i64"), Some(&Value::I64(-(1 << 62))));
    assert_eq!(metadata.get("t.f32"), Some(&Value::F32(0.1)));
    assert_eq!(metadata.get("t.f64"), Some(&Value::F64(0.1)));
    assert_eq!(metadata.get("t.true"), Some(&Value::Bool(true)));
    assert_eq!(metadata.get("t.false"), Some(&Value::Bool(false)));
    assert_eq!(metadata.get("t.array.u8"), Some(&Value::Array(Array::U8(vec![0, 127, 255]))));
    assert_eq!(metadata.get("t.array.u64"), Some(&Value::Array(Array::U64(vec![1, 1 << 40]))));
    assert_eq!(metadata.require_str("t.string").unwrap(), "grüße, 世界 🌍");
    assert_eq!(metadata.require_i32s("t.array.i32").unwrap(), [1, -2, 3]);
    assert_eq!(metadata.require_f32s("t.array.f32").unwrap(), [0.5, -0.25, 3.0]);
    assert_eq!(metadata.require_bools("t.array.bool").unwrap(), [true, false, true]);
    assert_eq!(metadata.require_strings("t.array.string").unwrap(), ["<s>", "", "▁the", "é"]);
    assert_eq!(metadata.array_len("t.array.string").unwrap(), Some(4));
    assert_eq!(metadata.iter().next().unwrap().0, "general.architecture");
    assert_eq!(metadata.iter().count(), metadata.len());
}

#[test]
fn tensors_and_their_bytes() {
    let file = Gguf::open(&fixture("all.gguf")).unwrap();
    let table: Vec<_> = file.tensors().iter().map(|t| (t.name.as_str(), t.dtype, t.shape.as_slice())).collect();
    let expected: [(&str, DType, &[u64]); 5] = [
        ("blk.0.weight", DType::F32, &[5, 3]),
        ("blk.1.weight", DType::F16, &[7]),
        ("blk.2.weight", DType::Q8_0, &[64, 3, 2]),
        ("blk.3.weight", DType::BF16, &[9, 2]),
        ("blk.4.weight", DType::Q4_0, &[32, 1, 2, 2]),
    ];
    assert_eq!(table, expected);
    let first = file.tensor("blk.0.weight").unwrap();
    let mut weights = [0.0; 15];
    quants::dequantize(first.dtype, file.data(first).unwrap(), &mut weights).unwrap();
    // The first and last numbers that numpy's default_rng(20261129) draws for this shape, rounded to single precision.
    assert_eq!([weights[0], weights[14]], [-0.57395655, -0.7156005]);
    for tensor in file.tensors() {
        let data = file.data(tensor).unwrap();
        assert_eq!(data.len() as u64, tensor.n_bytes());
        assert_eq!(data.as_ptr().addr() % 64, 0, "{} is not aligned", tensor.name);
        assert_eq!(&*file.data_shared(tensor).unwrap(), data);
    }
    assert!(file.tensor("blk.5.weight").is_none());
}

/// The writer makes the very bytes that the Python package made.
#[test]
fn rewritten_file_is_the_same() {
    for name in ["all.gguf", "split-00001-of-00003.gguf"] {
        let original = fs::read(fixture(name)).unwrap();
        let file = Gguf::open(&fixture(name)).unwrap();
        let mut writer = Writer::new();
        for (key, value) in file.metadata().iter() {
            writer.metadata(key, value.clone());
        }
        for tensor in file.tensors().iter().filter(|tensor| tensor.part() == 0) {
            writer.tensor(&tensor.name, &tensor.shape, tensor.dtype, file.data_shared(tensor).unwrap());
        }
        assert_eq!(writer.to_bytes().unwrap(), original, "{name}");
        let version_2 = Gguf::from_bytes(writer.version(2).to_bytes().unwrap());
        // The part of a split model cannot stand alone.
        assert_eq!(version_2.is_ok(), name == "all.gguf");
    }
}

#[test]
fn version_2_reads_like_version_3() {
    let mut bytes = fs::read(fixture("all.gguf")).unwrap();
    bytes[4] = 2;
    let (old, new) = (Gguf::from_bytes(bytes).unwrap(), Gguf::open(&fixture("all.gguf")).unwrap());
    assert_eq!(old.version(), 2);
    assert_eq!(old.tensors(), new.tensors());
    assert!(old.metadata().iter().eq(new.metadata().iter()));
    for tensor in old.tensors() {
        assert_eq!(old.data(tensor).unwrap(), new.data(tensor).unwrap());
    }
    assert_eq!(old.path(), None);
    assert_eq!(new.path(), Some(fixture("all.gguf").as_path()));
    assert_eq!(old.file_bytes(), new.file_bytes());
}

#[test]
fn big_endian_is_refused() {
    let error = Gguf::open(&fixture("big-endian.gguf")).unwrap_err();
    assert!(matches!(error.root(), Error::BigEndian { version: 3 }), "{error}");
    assert!(error.to_string().contains("big-endian.gguf: the file is big-endian"), "{error}");
}

#[test]
fn any_part_opens_a_split_model() {
    let whole = Gguf::open(&fixture("all.gguf")).unwrap();
    for part in 1..=3 {
        let split = Gguf::open(&fixture(&format!("split-0000{part}-of-00003.gguf"))).unwrap();
        assert_eq!(split.path(), Some(fixture("split-00001-of-00003.gguf").as_path()));
        assert_eq!(split.metadata().require_u32("t.u32").unwrap(), 7);
        assert_eq!(split.tensors().iter().map(|tensor| tensor.part()).collect::<Vec<_>>(), [0, 0, 1, 1, 2]);
        for tensor in split.tensors() {
            let same = whole.tensor(&tensor.name).unwrap();
            assert_eq!((&tensor.shape, tensor.dtype), (&same.shape, same.dtype));
            assert_eq!(split.data(tensor).unwrap(), whole.data(same).unwrap());
        }
    }
}

#[test]
fn split_models_that_do_not_fit_together() {
    type Change = fn(&Path);
    let rows: [(&str, Change, &str); 8] = [
        (
            "a part is missing",
            |dir| fs::remove_file(dir.join("m-00002-of-00003.gguf")).unwrap(),
            "part 2 of 3 is missing: DIR/m-00002-of-00003.gguf",
        ),
        (
            "a part is a folder",
            |dir| {
                fs::remove_file(dir.join("m-00003-of-00003.gguf")).unwrap();
                fs::create_dir(dir.join("m-00003-of-00003.gguf")).unwrap();
            },
            "DIR/m-00003-of-00003.gguf: expected a regular file, got a directory",
        ),
        ("a part of another position", |dir| part(dir, 2, &[("split.no", 2)], 1), "split.no is 2, expected 1"),
        ("a part of another count", |dir| part(dir, 3, &[("split.count", 4)], 2), "split.count is 4, expected 3"),
        ("a part without count", |dir| part(dir, 1, &[("split.count", 1)], 0), "split.count is 1, expected 3"),
        (
            "fewer tensors than announced",
            |dir| part(dir, 1, &[("split.tensors.count", 4)], 0),
            "split.tensors.count is 4, expected 3",
        ),
        (
            "a part that announces another number",
            |dir| part(dir, 2, &[("split.tensors.count", 9)], 1),
            "split.tensors.count is 9, expected 3",
        ),
        (
            "one tensor in two parts",
            |dir| part(dir, 3, &[], 0),
            "DIR/m-00003-of-00003.gguf: tensor \"blk.0.weight\" occurs twice",
        ),
    ];
    for (what, change, expected) in rows {
        let dir = tempfile::tempdir().unwrap();
        (1..=3).for_each(|number| part(dir.path(), number, &[], number - 1));
        Gguf::open(&dir.path().join("m-00001-of-00003.gguf")).unwrap();
        change(dir.path());
        let error = Gguf::open(&dir.path().join("m-00001-of-00003.gguf")).unwrap_err().to_string();
        let expected = expected.replace("DIR", dir.path().to_str().unwrap());
        assert!(error.contains(&expected), "{what}: {error}");
    }
}

#[test]
fn a_part_under_another_name() {
    let dir = tempfile::tempdir().unwrap();
    part(dir.path(), 2, &[], 1);
    let renamed = dir.path().join("model.gguf");
    fs::rename(dir.path().join("m-00002-of-00003.gguf"), &renamed).unwrap();
    let error = Gguf::open(&renamed).unwrap_err();
    assert!(matches!(error.root(), Error::SplitName { part: 2, of: 3 }), "{error}");
}

#[test]
fn a_whole_model_named_like_a_part() {
    let dir = tempfile::tempdir().unwrap();
    let one_of_one = dir.path().join("m-00001-of-00001.gguf");
    fs::copy(fixture("all.gguf"), &one_of_one).unwrap();
    Gguf::open(&one_of_one).unwrap();
    let one_of_two = dir.path().join("m-00001-of-00002.gguf");
    fs::rename(one_of_one, &one_of_two).unwrap();
    let error = Gguf::open(&one_of_two).unwrap_err();
    assert!(error.to_string().ends_with("split.count is absent, expected 2"), "{error}");
}

#[test]
fn paths_that_lead_to_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty.gguf");
    fs::write(&empty, "").unwrap();
    let socket = dir.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let rows = [
        (dir.path().to_owned(), "expected a regular file, got a directory"),
        (empty, "the file is empty, expected a GGUF file"),
        (socket, "expected a regular file, got a pipe, socket or device"),
        (pipe, "expected a regular file, got a pipe, socket or device"),
        (PathBuf::from("/dev/zero"), "expected a regular file, got a pipe, socket or device"),
        (dir.path().join("absent.gguf"), "cannot read the file's properties: "),
    ];
    for (path, expected) in rows {
        // On a thread of its own, because the failure to fear is waiting for ever.
        let (send, receive) = mpsc::channel();
        let opened = path.clone();
        std::thread::spawn(move || drop(send.send((Gguf::open(&opened), Gguf::open_header(&opened)))));
        let (open, open_header) = receive.recv_timeout(Duration::from_secs(20)).expect("opening returns");
        for error in [open.unwrap_err().to_string(), open_header.unwrap_err().to_string()] {
            assert!(error.starts_with(&format!("{}: {expected}", path.display())), "{error}");
        }
    }
}

#[test]
fn a_download_that_was_cut() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.gguf");
    let mut bytes = fs::read(fixture("all.gguf")).unwrap();
    let whole = Gguf::open(&fixture("all.gguf")).unwrap();
    let last = whole.tensors().last().unwrap();
    let end = last.file_offset() + last.n_bytes();
    bytes.truncate(usize::try_from(end).unwrap() - 1);
    fs::write(&path, &bytes).unwrap();

    let expected = format!(
        "{}: the file is cut short: it has {} bytes, expected at least {end} (tensor \"blk.4.weight\" is incomplete)",
        path.display(),
        bytes.len()
    );
    assert_eq!(Gguf::open(&path).unwrap_err().to_string(), expected);

    let header = Gguf::open_header(&path).unwrap();
    assert_eq!(header.tensors(), whole.tensors());
    let (complete, cut) = (&header.tensors()[3], &header.tensors()[4]);
    assert_eq!(header.data(complete).unwrap(), whole.data(complete).unwrap());
    assert_eq!(header.data(cut).unwrap_err().to_string(), expected);
    assert_eq!(header.data_shared(cut).unwrap_err().to_string(), expected);
}

#[test]
fn a_file_of_a_header_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("header.gguf");
    let whole = fs::read(fixture("all.gguf")).unwrap();
    let first = Gguf::open(&fixture("all.gguf")).unwrap().tensors()[0].file_offset();
    fs::write(&path, &whole[..usize::try_from(first).unwrap() - 64]).unwrap();
    let cut_header = Gguf::open_header(&path);
    assert!(matches!(cut_header.as_ref().map_err(Error::root), Err(Error::HeaderEnds { .. })), "{cut_header:?}");
    fs::write(&path, &whole[..usize::try_from(first).unwrap()]).unwrap();
    assert!(matches!(Gguf::open(&path).unwrap_err().root(), Error::Truncated { .. }));
    let header = Gguf::open_header(&path).unwrap();
    assert!(matches!(header.data(&header.tensors()[0]).unwrap_err().root(), Error::Truncated { .. }));
}

#[test]
fn a_file_that_shrinks_after_opening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    fs::copy(fixture("all.gguf"), &path).unwrap();
    let file = Gguf::open(&path).unwrap();
    file.data(&file.tensors()[0]).unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(100).unwrap();
    let error = file.data(&file.tensors()[0]).unwrap_err();
    assert!(matches!(error.root(), Error::Shrunk { got: 100, .. }), "{error}");
}

#[test]
fn a_file_that_is_replaced_after_opening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    fs::copy(fixture("all.gguf"), &path).unwrap();
    let file = Gguf::open(&path).unwrap();
    let before = file.data(&file.tensors()[0]).unwrap().to_vec();
    let other = dir.path().join("other");
    fs::write(&other, "short").unwrap();
    fs::rename(&other, &path).unwrap();
    assert_eq!(file.data(&file.tensors()[0]).unwrap(), before);
}

#[test]
fn a_huge_sparse_file() {
    // The header claims an array of 1 GiB, and the file has as many bytes, none of them on the disk.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sparse.gguf");
    let mut header = Writer::new().metadata("a", vec![0u8; 1]).to_bytes().unwrap();
    let count = 24 + 8 + 1 + 4 + 4;
    header[count..count + 8].copy_from_slice(&(1u64 << 30).to_le_bytes());
    fs::write(&path, &header).unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(2 << 30).unwrap();
    let error = Gguf::open(&path).unwrap_err();
    assert!(matches!(error.root(), Error::Limit { limit: 536_870_912, .. }), "{error}");
}

#[test]
fn shared_bytes_outlive_the_file() {
    let file = Gguf::open(&fixture("all.gguf")).unwrap();
    let expected = file.data(&file.tensors()[2]).unwrap().to_vec();
    let shared = file.data_shared(&file.tensors()[2]).unwrap();
    drop(file);
    let copies: Vec<_> = (0..2).map(|_| shared.clone()).collect();
    drop(shared);
    for copy in copies {
        std::thread::spawn({
            let expected = expected.clone();
            move || assert_eq!(*copy, *expected)
        })
        .join()
        .unwrap();
    }
}

#[test]
fn tensors_of_another_file_are_refused() {
    let file = Gguf::open(&fixture("all.gguf")).unwrap();
    let other = Gguf::open(&fixture("split-00001-of-00003.gguf")).unwrap();
    for tensor in other.tensors() {
        assert!(matches!(file.data(tensor), Err(Error::ForeignTensor { .. })), "{}", tensor.name);
    }
}

/// Writes part `number` of a model of three with one tensor, called after `tensor`; `changed` replaces its `split.*`
/// keys.
fn part(dir: &Path, number: u32, changed: &[(&str, u32)], tensor: u32) {
    let mut writer = Writer::new();
    for (key, value) in [("split.no", number - 1), ("split.count", 3), ("split.tensors.count", 3)] {
        let value = changed.iter().find(|(changed, _)| *changed == key).map_or(value, |&(_, value)| value);
        writer.metadata(key, value);
    }
    writer.tensor(format!("blk.{tensor}.weight"), &[8], DType::F32, vec![0; 32]);
    fs::write(dir.join(format!("m-{number:05}-of-00003.gguf")), writer.to_bytes().unwrap()).unwrap();
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/gguf/files").join(name)
}
