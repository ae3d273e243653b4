package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"jp/tools/files"
	"jp/tools/vanishing"
)

// Confine is what a [Tool] can touch; see [Spec]. The zero Confine lets it touch nothing, not even
// the libraries of a program: start from [System].
//
// It holds for everything below the tool. It is about the contents of files and folders. It does
// not restrict what stat shows, nor changes of modes, owners and times.
type Confine struct {
	// Read, Write and Exec are absolute paths of files and folders; a folder includes everything
	// below it. Read and Exec both allow reading and executing, since an interpreter can run
	// whatever can be read. Write allows reading, changing, creating and removing. In Read and
	// Write a symbolic link on the way is an error, since a tool may have made it. In Exec links
	// are followed, so Exec is for places where only the administrator of the system writes. A path
	// that does not exist allows nothing.
	Read, Write, Exec []string
	// Programs are absolute paths of files that can be executed and read, wherever they lie. The
	// program of the Spec is one of them. A path that is no regular file allows nothing. Links on
	// the way are followed where Links allows it; a program behind other links can be executed only
	// where the lists above open it.
	Programs []string
	Links    files.Links
	// TmpDir makes a folder for this run alone, names it in TMPDIR and removes it when the tree is
	// empty. HOME, where it is set, names it too unless KeepHome is set: programs look there for
	// settings, and many end if they find some that they may not read.
	TmpDir, KeepHome bool
	// Network allows sockets. Without it the tool can make none, of any family, but for connected
	// pairs.
	Network bool
	// Watch allows inotify. It shows the names of files that are made and opened in any folder that
	// the user may read, whatever the lists above say.
	Watch bool
	// Require makes Run fail with a *ConfineError when the system cannot enforce all of the above.
	// Without it, the tool is confined as far as the system can.
	Require bool
}

// ConfineError says what about a Confine the system cannot enforce.
type ConfineError struct {
	Missing []string // see Report
}

func (e *ConfineError) Error() string {
	return "sandbox: this system cannot enforce " + strings.Join(e.Missing, ", ")
}

// Report is what this system can enforce of a [Confine].
type Report struct {
	LandlockABI int  // of the kernel; 0 = none. Files are confined from MinLandlock on
	Seccomp     bool // system call filters work, and jp has one for this processor
	// Missing says what cannot be enforced, each a phrase like "access to files (no Landlock in
	// this kernel)"; empty when everything can.
	Missing []string
}

// MinLandlock is the Landlock ABI that confines the contents of files wholly: ABI 1 and 2 do not
// know truncation. It is of Linux 6.2.
const MinLandlock = 3

// scopeLandlock is the ABI that confines signals and abstract sockets (Linux 6.12).
const scopeLandlock = 6

// Files reports whether access to the contents of files can be enforced.
func (r Report) Files() bool { return r.LandlockABI >= MinLandlock }

// Missing returns what of c a system with the report r cannot enforce: the elements of r.Missing
// that matter to c.
func (c *Confine) Missing(r Report) []string {
	if c.Network {
		r.Seccomp = true
	}
	return r.missing()
}

// missing is what cannot be enforced.
func (r Report) missing() []string {
	var list []string
	switch {
	case r.LandlockABI == 0:
		list = append(list, "access to files (no Landlock here)")
	case !r.Files():
		list = append(list, fmt.Sprintf("access to files (Landlock ABI %d, %d is needed)", r.LandlockABI, MinLandlock))
	}
	if r.LandlockABI < scopeLandlock {
		list = append(list, fmt.Sprintf("signals to other processes (Landlock ABI %d, %d is needed)", r.LandlockABI, scopeLandlock))
	}
	if !r.Seccomp {
		list = append(list, "no network (no system call filter here)")
	}
	return list
}

// System returns a Confine with the system's programs, libraries and settings that nearly every
// program needs, and nothing of the user's. The caller may append to it.
//
// Left out on purpose: other files of /etc, /proc but for facts about the machine (it names every
// process's arguments), /run, /var, /dev/shm, /tmp.
func System() Confine {
	return Confine{
		Exec: []string{
			"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt",
			"/nix/store", "/gnu/store", "/run/current-system/sw", "/etc/alternatives",
			"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload",
			"/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/hosts", "/etc/hostname",
			"/etc/resolv.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols", "/etc/networks",
			"/etc/localtime", "/etc/timezone", "/etc/locale.alias", "/etc/locale.conf", "/etc/os-release", "/etc/debian_version",
			"/etc/mime.types", "/etc/magic", "/etc/terminfo", "/etc/inputrc", "/etc/gitconfig", "/etc/gitattributes",
			"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/pki/tls/certs", "/etc/pki/ca-trust",
			"/etc/pki/tls/openssl.cnf", "/etc/crypto-policies", "/etc/fonts", "/etc/python3", "/etc/perl", "/etc/java",
			"/dev/zero", "/dev/urandom", "/dev/random",
			"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/version", "/proc/filesystems",
			"/proc/sys/kernel/osrelease", "/proc/sys/kernel/ngroups_max", "/proc/sys/kernel/cap_last_cap", "/proc/sys/kernel/pid_max",
			"/proc/sys/kernel/random", "/proc/sys/vm/overcommit_memory", "/proc/sys/fs/pipe-max-size", "/proc/sys/net/core/somaxconn",
			"/sys/devices/system/cpu", "/sys/kernel/mm/transparent_hugepage",
		},
		Write: []string{"/dev/null", "/dev/full"},
	}
}

// prepare checks c and returns a copy to send, with a folder of its own where c asks for one. The
// caller removes that.
func (c *Confine) prepare(spec *Spec) (confinement, error) {
	if c.Require {
		if missing := c.Missing(Enforceable()); len(missing) > 0 {
			return confinement{}, &ConfineError{missing}
		}
	}
	out := confinement{Confine: *c}
	for _, list := range [][]string{c.Read, c.Write, c.Exec, c.Programs} {
		for _, path := range list {
			if !filepath.IsAbs(path) {
				return confinement{}, fmt.Errorf("sandbox: path %q is not absolute", path)
			}
		}
	}
	program := spec.Path
	if !filepath.IsAbs(program) {
		program = filepath.Join(spec.Dir, program)
	}
	out.Programs = nil
	for _, path := range append(slices.Clip(c.Programs), program) {
		if path, err := c.Links.Resolve(path); err == nil {
			out.Programs = append(out.Programs, path)
		}
	}
	if !c.TmpDir {
		return out, nil
	}
	base := os.TempDir()
	for _, e := range spec.Env {
		if v, ok := strings.CutPrefix(e, "TMPDIR="); ok && filepath.IsAbs(v) {
			base = v
		}
	}
	// The folder's own name is not resolved: a tool that may write base could have made it a link.
	real, err := filepath.Abs(base) // the program works in another folder
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err == nil {
		out.tmp, err = vanishing.Make(real, vanishing.OfTool)
	}
	if err != nil {
		if path, ok := errors.AsType[*os.PathError](err); ok {
			err = path.Err
		}
		return confinement{}, fmt.Errorf("sandbox: folder for temporary files in %s: %w", base, err)
	}
	env := make([]string, 0, len(spec.Env)+1)
	for _, e := range spec.Env {
		switch {
		case strings.HasPrefix(e, "TMPDIR="):
		case strings.HasPrefix(e, "HOME=") && !c.KeepHome:
			env = append(env, "HOME="+out.tmp.Path)
		default:
			env = append(env, e)
		}
	}
	spec.Env = append(env, "TMPDIR="+out.tmp.Path)
	return out, nil
}

// A confinement is a Confine on its way to a guard.
type confinement struct {
	Confine
	tmp *vanishing.Dir // nil = none
}

// String is the form of a confinement in an order: items of a letter, a length and a text, such as
// "r4:/srvw8:/srv/tmpn0:".
func (c confinement) String() string {
	var b []byte
	add := func(what byte, texts ...string) {
		for _, t := range texts {
			b = append(strconv.AppendInt(append(b, what), int64(len(t)), 10), ':')
			b = append(b, t...)
		}
	}
	add('x', c.Exec...)
	add('p', c.Programs...)
	add('r', c.Read...)
	add('w', c.Write...)
	if c.tmp != nil {
		add('t', c.tmp.Path)
	}
	if c.Network {
		add('n', "")
	}
	if c.Watch {
		add('i', "")
	}
	if c.Require {
		add('q', "")
	}
	add('.', "")
	return string(b)
}

// decodeConfinement reads the form of String.
func decodeConfinement(s string) (c confinement, err error) {
	bad := errors.New("order: the confinement is damaged")
	for rest := s; ; {
		if rest == "" {
			return confinement{}, bad
		}
		what := rest[0]
		length, after, ok := strings.Cut(rest[1:], ":")
		n, err := strconv.Atoi(length)
		if !ok || err != nil || n < 0 || n > len(after) {
			return confinement{}, bad
		}
		text := after[:n]
		rest = after[n:]
		switch what {
		case 'x':
			c.Exec = append(c.Exec, text)
		case 'p':
			c.Programs = append(c.Programs, text)
		case 'r':
			c.Read = append(c.Read, text)
		case 'w':
			c.Write = append(c.Write, text)
		case 't':
			if !filepath.IsAbs(text) {
				return confinement{}, bad
			}
			c.tmp, c.TmpDir = &vanishing.Dir{Path: text}, true
		case 'n':
			c.Network = true
		case 'i':
			c.Watch = true
		case 'q':
			c.Require = true
		case '.':
			// One form only: what could be read in two ways is damaged.
			if rest != "" || c.String() != s {
				return confinement{}, bad
			}
			return c, nil
		default:
			return confinement{}, bad
		}
	}
}
