package interpreter

import (
	"fmt"
	"slices"
	"strings"

	"jp/tools/template"
)

// interpreter says where a program takes code from its arguments. No value may be there: what is an
// argument to us would be code to it.
//
// The table is a lint for honest authors and refuses rather too much: placeholders behind an option
// that it does not know are refused. It cannot know every program that runs others.
type interpreter struct {
	all    string   // reason why no placeholder is allowed at all; "" = some are
	flags  string   // one-letter options without a value
	valued string   // one-letter options with a value that is not code
	code   string   // one-letter options whose value is code, or a file of it
	more   string   // those of them behind which the first operand is code, or a file of it, too
	long   []string // long options without a value, or with one after '='
	coded  []string // long options whose value is code, or a file of it
	pairs  []string // long options with a name and a value
	ends   bool     // what follows the code or script goes to it, options too
	mixes  bool     // options may follow operands
	opens  string   // one-letter options that make it open its operands, and run some
}

const (
	runsOthers = "runs what its arguments name: name that program directly"
	ownCode    = "reads its arguments as code of its own"
	opensPipes = "is opened there, and what begins or ends with | is run"
)

// interpreters by programName.
func interpreterOf(program string) (interpreter, bool) {
	switch programName(program) {
	case "sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "mksh", "yash", "fish":
		return interpreter{
			flags: "abefhkmnptuvxBCEHPcilrsD", valued: "oO", ends: true,
			long: []string{"--login", "--noprofile", "--norc", "--posix", "--restricted", "--verbose"},
		}, true
	case "python", "pypy", "ipython":
		return interpreter{flags: "bBdEhiIOPqsSuvVx", valued: "WX", code: "cm", ends: true}, true
	case "perl":
		return interpreter{flags: "acnpsStTuUvwWX", valued: "I", code: "eE", opens: "np"}, true
	case "ruby":
		return interpreter{flags: "aclnpsSvwW", valued: "Ir", code: "e"}, true
	case "node", "nodejs":
		return interpreter{valued: "r", code: "ep", coded: []string{"--eval", "--print"}, ends: true}, true
	case "php":
		return interpreter{flags: "aeilmnqsvw", valued: "dcz", code: "rf"}, true
	case "lua", "luajit":
		return interpreter{flags: "iEvW", valued: "l", code: "e", more: "e", ends: true}, true
	case "rscript", "r":
		return interpreter{code: "e", long: []string{"--vanilla", "--no-save", "--slave"}, ends: true}, true
	case "sed", "gsed":
		return interpreter{
			flags: "nrEsuzi", valued: "l", code: "ef", mixes: true,
			long:  []string{"--quiet", "--silent", "--posix", "--regexp-extended", "--separate", "--unbuffered", "--null-data", "--in-place", "--debug", "--sandbox", "--line-length"},
			coded: []string{"--expression", "--file"},
		}, true
	case "awk", "gawk", "mawk", "nawk":
		return interpreter{valued: "Fv", code: "feE", long: []string{"--posix", "--traditional", "--sandbox", "--field-separator", "--assign"}, coded: []string{"--file", "--source", "--exec"}}, true
	case "jq", "gojq", "jaq":
		return interpreter{
			flags: "nrRsScCMaejh", code: "fL", more: "L", mixes: true,
			long:  []string{"--null-input", "--raw-input", "--raw-output", "--slurp", "--compact-output", "--sort-keys", "--exit-status", "--join-output", "--tab", "--args", "--jsonargs"},
			coded: []string{"--from-file"},
			pairs: []string{"--arg", "--argjson", "--slurpfile", "--rawfile"},
		}, true
	case "ssh", "sshpass", "mosh", "rsh":
		return interpreter{all: "hands its arguments to a shell elsewhere"}, true
	case "env", "xargs", "parallel", "watch", "su", "sudo", "doas", "runuser", "pkexec", "chroot", "nsenter", "unshare",
		"nice", "nohup", "timeout", "setsid", "stdbuf", "ionice", "chrt", "taskset", "time", "strace", "ltrace", "flock",
		"script", "screen", "tmux", "at", "batch", "systemd-run", "busybox", "toybox", "entr", "npx", "bunx", "uvx", "pnpx",
		"pipx", "exec", "command", "eval", "source", "ld", "ld-linux", "ld-linux-x86-64.so", "bwrap", "firejail", "proot",
		"fakeroot", "prlimit", "setarch", "valgrind", "perf", "rlwrap", "direnv", "nix-shell", "xvfb-run", "dbus-run-session",
		"linux", "i", "x86_", // linux32, i386, x86_64: programName drops digits
		"setpriv", "capsh", "numactl", "cgexec", "systemd-nspawn", "systemd-inhibit", "machinectl", "systemctl", "service",
		"start-stop-daemon", "daemonize", "run-parts", "crontab", "gosu", "su-exec", "tini", "dumb-init", "chpst", "softlimit", "envdir",
		"setlock", "setuidgid", "torsocks", "proxychains", "faketime", "eatmydata", "ccache", "distcc", "unbuffer", "dtach", "abduco", "tmate",
		"hyperfine", "watchexec", "nodemon", "xdg-open", "npm", "yarn", "pnpm", "poetry", "pipenv", "uv", "hatch", "tox", "nox", "bundle",
		"docker-compose", "lein", "mix", "cabal", "stack", "opam", "dotnet", "swift", "zx", "ts-node", "tsx", "vite-node", "electron", "gradlew.bat",
		"invoke", "fab", "jupyter", "accelerate", "torchrun", "mpirun", "mpiexec", "srun", "sbatch", "parallel-ssh", "pssh", "ccache-swig", "scala-cli",
		"rbenv", "pyenv", "asdf", "mise", "devbox", "nix", "guix", "ansible", "ansible-playbook", "vagrant", "fzf":
		return interpreter{all: runsOthers}, true
	case "pip", "gem", "apt", "apt-get", "aptitude", "dpkg", "rpm", "yum", "dnf", "brew", "conda", "composer", "cpan":
		return interpreter{all: "installs what its arguments name, and runs its code"}, true
	case "make", "gmake", "osascript", "tclsh", "wish", "expect", "guile", "racket", "sbcl", "emacs", "vi", "vim", "nvim",
		"ex", "ed", "m", "gdb", "lldb", "sqlite", "psql", "mysql", "mariadb", "duckdb", "csh", "tcsh", "deno", "bun",
		"groovy", "scala", "ghci", "julia", "octave", "bc", "dc", "pwsh", "powershell", "rsync", "socat", "ncat", "nc", "netcat", "nmap", "tcpdump",
		"less", "more", "most", "nano", "pico", "mail", "mailx", "mutt", "sendmail", "ftp", "lftp", "gs", "tex", "latex", "pdflatex", "xelatex", "lualatex",
		"luatex", "pdftex", "gnuplot", "maxima", "gp", "convert", "magick", "mogrify", "rake", "just", "task", "ninja", "ant", "mvn", "gradle",
		"gradlew", "bazel", "scons", "cmake", "meson", "sage", "mongosh", "mongo", "redis-cli", "clickhouse", "trino", "elixir", "erl", "iex",
		"irb", "pry", "nu", "xonsh", "elvish", "osh", "ysh", "murex", "scsh", "jshell", "jython", "jruby", "bb", "babashka", "janet", "raku", "crystal",
		"kotlin", "runghc", "runhaskell", "coffee", "sftp", "smbclient", "telnet", "tftp", "telnet-ssl", "bpftrace", "stap", "systemtap",
		"clojure", "clj", "sml", "ocaml", "swipl", "vimdiff", "rvim", "view", "nvimdiff":
		return interpreter{all: ownCode}, true
	}
	return interpreter{}, false
}

// Check refuses placeholders where a value would be code to the program, or to one that it runs.
// dash names the parameters whose values may start with '-'.
func Check(program string, args []Argument, dash map[string]bool) error {
	switch programName(program) {
	case "python", "pypy", "ipython":
		if name := pythonModule(args); slices.Contains(runningModules, name) {
			return interpreter{all: runsOthers}.check(program+" -m "+name, args, dash)
		}
	case "perl":
		for _, a := range args {
			if text, ok := a.Literal(); ok && strings.Contains(strings.ReplaceAll(text, "<<>>", ""), "<>") {
				return interpreter{all: opensPipes}.check(program, args, dash)
			}
		}
	case "java":
		return checkJava(args)
	case "docker", "podman", "nerdctl", "kubectl", "oc":
		if err := checkContainer(program, args, dash); err != nil {
			return err
		}
	}
	if in, ok := interpreterOf(program); ok {
		return in.check(program, args, dash)
	}
	options, runs := runningOptionsOf(program)
	switch programName(program) {
	case "find", "gfind", "fd", "fdfind":
		if err := checkExec(program, args, dash); err != nil {
			return err
		}
	case "git":
		if err := checkGit(args); err != nil {
			return err
		}
	case "go":
		if done, err := checkGo(args, dash); done || err != nil {
			return err
		}
	case "tar", "gtar", "bsdtar":
		return checkTar(program, args, options, dash)
	}
	if runs {
		if err := options.check(program, args, dash); err != nil {
			return err
		}
	}
	return checkNested(args, dash)
}

// Is reports whether a program takes code from its arguments.
func Is(program string) bool {
	_, ok := interpreterOf(program)
	return ok
}

// ReadsCode reports whether a program is an interpreter that reads its code with these arguments,
// because they do not say what else to run.
func ReadsCode(program string, args []Argument) bool {
	in, ok := interpreterOf(program)
	return ok && (in.all != "" || in.check(program, append(args, Argument{template.Value{}}), nil) != nil)
}

// check walks the arguments as the interpreter would.
func (in interpreter) check(program string, args []Argument, dash map[string]bool) error {
	code := false // the code or script has been named, literally
	known := true // all options so far are known
	for i := 0; i < len(args); i++ {
		text, literal := args[i].Literal()
		refuse := func(why string) error {
			return fmt.Errorf("a placeholder in argument %d of %s: it %s", i+1, program, why)
		}
		if !literal {
			switch {
			case in.all != "":
				return refuse(in.all)
			case !known:
				return refuse("may be code there, after an option that is not known here")
			case !code:
				return refuse("would be code, or name it")
			case !in.ends && (strings.HasPrefix(args[i].prefix(), "-") || args[i].mayDash(dash)):
				return refuse("may be code there, in an option")
			}
			continue
		}
		if code && in.ends || in.all != "" && in.opens == "" {
			continue
		}
		switch {
		case text == "--":
			if !code && i+1 < len(args) {
				if _, literal := args[i+1].Literal(); literal {
					code, i = true, i+1
				}
			}
			in.ends = true
		case strings.HasPrefix(text, "--"):
			name, _, attached := strings.Cut(text, "=")
			switch {
			case slices.Contains(in.pairs, name):
				i += 2
				if i-1 < len(args) {
					if _, literal := args[i-1].Literal(); !literal {
						return refuse("names a variable")
					}
				}
			case slices.Contains(in.coded, name):
				if !attached {
					if i++; i < len(args) {
						if _, literal := args[i].Literal(); !literal {
							return refuse("would be code, or name it")
						}
					}
				}
				code = true
			case !slices.Contains(in.long, name):
				known = false
			}
		case strings.HasPrefix(text, "-") && text != "-":
			took, isCode, ok := in.cluster(text[1:])
			letters := text[1:]
			more := false
			if at := strings.IndexAny(letters, in.code+in.valued); at >= 0 {
				more = strings.IndexByte(in.more, letters[at]) >= 0
				letters = letters[:at]
			}
			if strings.ContainsAny(letters, in.opens) {
				in.all = opensPipes
			}
			known = known && ok
			if took && i+1 < len(args) {
				next := args[i+1]
				_, literal := next.Literal()
				switch {
				case !literal && isCode:
					return refuse("would be code, or name it")
				case !literal && !strings.Contains(next.prefix(), "="):
					return refuse("belongs to an option")
				}
				i++
			}
			code = code || isCode && !more
		default:
			code = true
			in.ends = in.ends || !in.mixes
		}
	}
	return nil
}

// cluster reads the one-letter options in s. It reports whether the last takes the next argument,
// whether one takes code, and whether all are known.
func (in interpreter) cluster(s string) (takesNext, isCode, ok bool) {
	for i, c := range s {
		last := i == len(s)-1
		switch {
		case strings.ContainsRune(in.code, c):
			return last, true, true
		case strings.ContainsRune(in.valued, c):
			return last, false, true
		case !strings.ContainsRune(in.flags, c):
			return false, false, false
		case c == 'i' && !last: // sed -i.bak
			return false, false, true
		}
	}
	return false, false, true
}

// checkExec refuses placeholders in what find and fd execute.
func checkExec(program string, args []Argument, dash map[string]bool) error {
	inside := false
	for i, a := range args {
		text, literal := a.Literal()
		switch {
		case slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"}, text) && literal:
			inside = true
		case !literal && (inside || args[i].mayDash(dash)):
			return fmt.Errorf("a placeholder in argument %d of %s: it would be part of a command that %s runs", i+1, program, program)
		case literal && (text == ";" || text == "+"):
			inside = false
		}
	}
	return nil
}

// checkGit refuses placeholders that choose git's configuration or command.
func checkGit(args []Argument) error {
	for i := 0; i < len(args); i++ {
		text, literal := args[i].Literal()
		if !literal {
			return fmt.Errorf("a placeholder in argument %d of git: before the subcommand it would be configuration, and that names programs", i+1)
		}
		switch {
		case text == "--namespace":
			i++
		case text == "-C" || text == "--git-dir" || text == "--work-tree":
			if i++; i < len(args) {
				if _, literal := args[i].Literal(); !literal {
					return fmt.Errorf("a placeholder in argument %d of git: it would choose a repository, and its configuration names programs", i+1)
				}
			}
		case text == "-c" || text == "--config-env" || text == "--exec-path":
			if i++; i < len(args) {
				if _, literal := args[i].Literal(); !literal {
					return fmt.Errorf("a placeholder in argument %d of git: it would be configuration, and that names programs", i+1)
				}
			}
		case strings.HasPrefix(text, "-"):
		default:
			if !slices.Contains([]string{"config", "filter-branch", "bisect", "submodule", "difftool", "mergetool", "daemon", "send-email", "credential", "var"}, text) {
				return nil
			}
			for j, a := range args[i+1:] {
				if _, literal := a.Literal(); !literal {
					return fmt.Errorf("a placeholder in argument %d of git: git %s runs what its arguments name", i+j+2, text)
				}
			}
			return nil
		}
	}
	return nil
}

// checkGo refuses placeholders that choose the program of go run and go tool. All arguments behind
// that program go to it: nothing is left to check then.
func checkGo(args []Argument, dash map[string]bool) (done bool, err error) {
	for i, a := range args {
		switch text, literal := a.Literal(); {
		case !literal:
			return true, fmt.Errorf("a placeholder in argument %d of go: it would be the command", i+1)
		case text == "run" || text == "tool":
			return true, interpreter{ends: true}.check("go "+text, args[i+1:], dash)
		case !strings.HasPrefix(text, "-"):
			return false, nil
		}
	}
	return false, nil
}

// checkNested finds an interpreter with code in the arguments of another program, such as docker
// exec box sh -c ...
func checkNested(args []Argument, dash map[string]bool) error {
	for i := 0; i+1 < len(args); i++ {
		name, literal := args[i].Literal()
		option, optionLiteral := args[i+1].Literal()
		if !literal || !optionLiteral || len(option) < 2 || option[0] != '-' {
			continue
		}
		in, ok := interpreterOf(name)
		if !ok || in.all != "" {
			continue
		}
		shell := strings.ContainsRune(in.flags, 'c') && in.code == "" && strings.ContainsRune(option, 'c')
		if _, isCode, _ := in.cluster(option[1:]); isCode || shell {
			if err := in.check(name, args[i+1:], dash); err != nil {
				return err
			}
		}
	}
	return nil
}
