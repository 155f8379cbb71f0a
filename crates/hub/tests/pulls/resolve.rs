//! From what a user names to a file or to the sentence that says why there is none.

use std::fs;
use std::path::Path;

use zinc_hub::catalog::{DEFAULT, ENTRIES};
use zinc_hub::{Error, Folders, Manifest, ManifestFile, Resolved, Verification, model_file, model_id};

fn message(path: &Path) -> String {
    model_file(path).unwrap_err().to_string()
}

#[test]
fn paths_that_are_no_model_file_each_have_their_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let shown = folder.path().display();

    assert_eq!(message(&at("none.gguf")), format!("there is no file {shown}/none.gguf"));
    let id = DEFAULT.id.as_str();
    assert_eq!(message(Path::new(id)), format!("there is no file {id}; a model of that id is in the catalog"));

    assert_eq!(message(folder.path()), format!("{shown} is a folder, not a model file"));
    for name in ["b.gguf", "a.gguf", "c.txt"] {
        fs::write(at(name), "x").unwrap();
    }
    assert_eq!(message(folder.path()), format!("{shown} is a folder, not a model file; it holds a.gguf, b.gguf"));
    assert_eq!(message(&at("c.txt/x")), format!("there is no file {shown}/c.txt/x"));

    fs::write(at("empty.gguf"), "").unwrap();
    assert_eq!(message(&at("empty.gguf")), format!("{shown}/empty.gguf is empty"));
    assert_eq!(message(Path::new("/dev/null")), "/dev/null is not a regular file");
    model_file(&at("a.gguf")).unwrap();
}

#[test]
fn ids_are_found_suggested_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folders = Folders::at(folder.path());
    for entry in &ENTRIES {
        let found = model_id(&folders, entry.id.as_str()).unwrap();
        assert!(matches!(found, Resolved::Missing(missing) if missing.id == entry.id));
    }
    let unknown = model_id(&folders, "Qwen35-2B-Q4K").unwrap_err();
    assert_eq!(
        unknown.to_string().split(" or ").next().unwrap(),
        "there is no model \"qwen35-2b-q4k\" in the catalog; did you mean qwen35-2b-q4k-m"
    );
    assert!(matches!(unknown, Error::UnknownModel { .. }));
    let unlike = model_id(&folders, "mistral-large").unwrap_err();
    assert_eq!(unlike.to_string(), "there is no model \"mistral-large\" in the catalog");
    for outside in ["../../etc/passwd", "/etc/passwd", "", "a\u{1b}[31m", &"x".repeat(10_000)] {
        let refused = model_id(&folders, outside).unwrap_err();
        assert!(matches!(refused, Error::BadId { .. }), "{outside:?}");
        assert!(!refused.to_string().contains('\u{1b}') && refused.to_string().len() < 200);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "looking makes nothing");
}

#[test]
fn a_model_counts_as_installed_when_its_file_fits_the_catalog_and_the_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let folders = Folders::at(folder.path());
    let is_installed = || matches!(model_id(&folders, DEFAULT.id.as_str()).unwrap(), Resolved::Installed(..));
    let file = folders.file(DEFAULT);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    // A file of the right length takes no room: it is one hole.
    fs::File::create(&file).unwrap().set_len(DEFAULT.size_bytes).unwrap();
    assert!(!is_installed(), "nothing says that it was checked");

    let manifest = Manifest {
        id: DEFAULT.id.to_string(),
        repository: DEFAULT.hub.repository.to_owned(),
        revision: DEFAULT.hub.revision.to_owned(),
        files: vec![ManifestFile {
            name: DEFAULT.hub.file.to_owned(),
            size_bytes: DEFAULT.size_bytes,
            sha256: DEFAULT.sha256.unwrap().to_string(),
        }],
        verification: Verification::Sha256,
        source: "a test".into(),
        installed_at_unix: 0,
    };
    let write = |manifest: &Manifest| {
        fs::write(file.with_file_name("manifest.json"), serde_json::to_vec(manifest).unwrap()).unwrap()
    };
    write(&manifest);
    assert!(is_installed());
    write(&Manifest { verification: Verification::SizeOnly, ..manifest.clone() });
    assert!(!is_installed(), "it was not checked against the published sum");
    let other = ManifestFile { sha256: "0".repeat(64), ..manifest.files[0].clone() };
    write(&Manifest { files: vec![other], ..manifest.clone() });
    assert!(!is_installed(), "it was checked against something else");
    write(&manifest);
    fs::File::create(&file).unwrap().set_len(DEFAULT.size_bytes - 1).unwrap();
    assert!(!is_installed(), "it is too short");
}
