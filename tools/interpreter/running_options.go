package interpreter

import (
	"fmt"
	"slices"
	"strings"

	"jp/tools/template"
)

// runningOptions are the options by which a program that is no interpreter runs or loads something,
// or reads settings that name what it runs.
type runningOptions struct {
	short string   // one letter each
	long  []string // with their dashes; those with two may be shortened, as getopt_long allows
	but   string   // a literal option that makes them harmless; "" = none
	files bool     // @FILE means options in a file
}

// runningOptionsOf knows programs by programName. Like the table of interpreters it is a lint: the
// sandbox is the boundary.
func runningOptionsOf(program string) (runningOptions, bool) {
	switch programName(program) {
	case "tar", "gtar", "bsdtar":
		// The value of -f may have a colon: then it names a host, and a remote shell is started for
		// it; see tarArchive.
		return runningOptions{short: "IF", long: []string{
			"--use-compress-program", "--to-command", "--checkpoint-action", "--info-script", "--new-volume-script", "--rsh-command", "--rmt-command",
		}}, true
	case "cpio":
		return runningOptions{short: "FHIO", long: []string{"--file", "--rsh-command"}, but: "--force-local"}, true
	case "scp", "sftp":
		return runningOptions{short: "SFoDi", long: []string{}}, true
	case "curl":
		return runningOptions{short: "K", long: []string{"--config", "--engine"}}, true
	case "wget":
		return runningOptions{short: "e", long: []string{"--execute", "--config", "--use-askpass"}}, true
	case "sort", "gsort":
		return runningOptions{long: []string{"--compress-program"}}, true
	case "split", "gsplit":
		return runningOptions{long: []string{"--filter"}}, true
	case "install", "ginstall":
		return runningOptions{long: []string{"--strip-program"}}, true
	case "zip":
		return runningOptions{short: "T", long: []string{"-TT", "--unzip-command"}}, true
	case "rg", "ag", "bat", "batcat", "delta", "ack":
		return runningOptions{long: []string{"--pre", "--hostname-bin", "--pager", "--ackrc"}}, true
	case "man":
		return runningOptions{short: "PHpC", long: []string{"--pager", "--html", "--preprocessor", "--config-file"}}, true
	case "diff3", "sdiff", "diff":
		return runningOptions{long: []string{"--diff-program"}}, true
	case "pandoc":
		return runningOptions{short: "FLd", long: []string{"--filter", "--lua-filter", "--defaults", "--pdf-engine", "--pdf-engine-opt", "--data-dir", "--to", "--from"}}, true
	case "gcc", "g++", "cc", "c++", "clang", "clang++":
		return runningOptions{short: "B", files: true, long: []string{"-wrapper", "-specs", "-fplugin", "-Xclang", "-load", "--config"}}, true
	case "hg":
		return runningOptions{short: "R", long: []string{"--config", "--config-file", "--cwd", "--repository", "--ssh", "--remotecmd", "--tool"}}, true
	case "svn":
		return runningOptions{long: []string{"--diff-cmd", "--diff3-cmd", "--editor-cmd", "--config-option", "--config-dir", "--extensions"}}, true
	case "helm":
		return runningOptions{long: []string{"--post-renderer", "--post-renderer-args"}}, true
	case "pytest", "py.test":
		return runningOptions{short: "pco", long: []string{"--rootdir", "--confcutdir", "--override-ini", "--config-file", "--import-mode"}}, true
	case "eslint", "prettier", "stylelint", "jest", "vitest", "mocha", "babel", "webpack", "rollup", "vite", "tsc":
		return runningOptions{short: "crfp", long: []string{
			"--config", "--rulesdir", "--plugin", "--plugins", "--parser", "--resolve-plugins-relative-to", "--format", "--formatter", "--custom-formatter",
			"--require", "--import", "--loader", "--reporter", "--runner", "--setupFiles", "--project", "--rootDir", "--presets",
		}}, true
	case "mypy", "pylint", "flake", "black", "ruff", "bandit":
		return runningOptions{long: []string{"--config-file", "--config", "--rcfile", "--python-executable", "--load-plugins", "--init-hook", "--append-config"}}, true
	case "go":
		return runningOptions{long: []string{
			"-exec", "-toolexec", "-vettool", "-overlay", "-ldflags", "-gcflags", "-asmflags", "-gccgoflags", "-modfile",
			"--exec", "--toolexec", "--vettool", "--overlay", "--ldflags", "--gcflags", "--asmflags", "--gccgoflags", "--modfile",
		}}, true
	case "cargo":
		return runningOptions{short: "Z", long: []string{"--config", "--manifest-path"}}, true
	case "openssl":
		return runningOptions{long: []string{"-engine", "-provider", "-provider-path", "-config"}}, true
	case "git":
		return runningOptions{short: "uxcO", long: []string{
			"--upload-pack", "--receive-pack", "--exec", "--open-files-in-pager", "--config", "--template", "--strategy", "--extcmd", "--tool",
		}}, true
	}
	return runningOptions{}, false
}

// check refuses placeholders in the values of such options, and placeholders that could be such an
// option.
func (o runningOptions) check(program string, args []Argument, dash map[string]bool) error {
	if o.but != "" && slices.ContainsFunc(args, func(a Argument) bool { text, literal := a.Literal(); return literal && text == o.but }) {
		return nil
	}
	takes := false // the argument before takes this one
	for i, a := range args {
		text, literal := a.Literal()
		if literal && text == "--" && !o.files {
			return nil
		}
		if !literal {
			why := ""
			switch prefix := a.prefix(); {
			case takes, o.runs(prefix):
				why = "names what is run"
			case o.files && (prefix == "" || prefix == "@"):
				why = "may be @FILE, a file of options, and some of those name what is run: write ./ in front of it"
			case strings.HasPrefix(prefix, "-") && !strings.Contains(prefix, "=") && (prefix == "-" || strings.HasPrefix(prefix, "--")):
				why = "chooses an option, and some of those name what is run"
			case prefix == "" && a.mayDash(dash):
				why = "may be an option (allow_dash), and some of those name what is run"
			}
			if why != "" {
				return fmt.Errorf("a placeholder in argument %d of %s: it %s", i+1, program, why)
			}
		}
		takes = literal && !strings.Contains(text, "=") && o.runs(text)
	}
	return nil
}

// runs reports whether text begins with one of the options.
func (o runningOptions) runs(text string) bool {
	name, _, _ := strings.Cut(text, "=")
	switch {
	case len(name) < 2 || name[0] != '-':
		return false
	case slices.Contains(o.long, name):
		return true
	case strings.HasPrefix(name, "--"):
		return len(name) > 2 && slices.ContainsFunc(o.long, func(l string) bool { return strings.HasPrefix(l, name) })
	}
	return strings.ContainsAny(name, o.short)
}

// checkTar refuses, besides what runs, an archive that a value names. An archive with a colon is on
// another host: tar starts a remote shell with the text before the colon. The letters in the first
// argument need no dash.
func checkTar(program string, args []Argument, o runningOptions, dash map[string]bool) error {
	if len(args) > 0 {
		if text, literal := args[0].Literal(); literal && !strings.HasPrefix(text, "-") {
			args = append([]Argument{{template.Text{Text: "-" + text}}}, args[1:]...)
		}
	}
	local := slices.ContainsFunc(args, func(a Argument) bool { text, literal := a.Literal(); return literal && text == "--force-local" })
	if !local {
		o.short += "f"
		o.long = append(o.long[:len(o.long):len(o.long)], "--file")
	}
	err := o.check(program, args, dash)
	if err != nil && !local {
		return fmt.Errorf("%w, or an archive on another host where it has a colon (--force-local rules that out)", err)
	}
	return err
}
