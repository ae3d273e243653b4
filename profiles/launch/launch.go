// Package launch is what a config says of a launcher: a command that starts `jp worker` elsewhere,
// such as ssh or srun.
//
// A launcher is run without a shell on this side, but ssh gives its arguments to a shell on the
// other one. So the program that is named there can only have characters that no shell reads.
package launch

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"jp/tools/environ"
)

// Launcher is one table of [launchers]. Config fills it with checked values and defaults.
type Launcher struct {
	Command   []string      // program and arguments, without jp's own; see Line
	Program   string        // jp on the node
	Stop      []string      // command after a launcher that had to be killed; empty = none; see StopLine
	Env       []string      // names of variables beside those of a tool, or prefixes of names that end in "*"
	Workspace string        // Same or None
	Workers   int           // connections, each with children of its own
	Children  int           // children at once of one connection
	Starting  int           // launches at once
	Attempts  int           // launches until the first word of one connection
	Queue     time.Duration // longest wait from a launch to the first word
	Lease     time.Duration // longest silence of a connection
}

// Values of Launcher.Workspace.
const (
	Same = "same" // the node has the workspace at the same path, with equal files where trust counts
	None = "none" // the node has no workspace: sub-agents work with text alone
)

// placeholder stands for a name that is unique to a run, letters, digits and -.
const placeholder = "{run}"

// Line is the command that starts a worker for a run.
func (l *Launcher) Line(run string) []string {
	return append(fill(l.Command, run), l.Program, "worker")
}

// StopLine is the command that stops what a killed launcher has left, nil without one.
func (l *Launcher) StopLine(run string) []string { return fill(l.Stop, run) }

func fill(line []string, run string) []string {
	line = slices.Clone(line)
	for i := range line {
		line[i] = strings.ReplaceAll(line[i], placeholder, run)
	}
	return line
}

// CheckName checks the name of a launcher.
func CheckName(s string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,39}$`).MatchString(s) {
		return errors.New("the name of a launcher must be letters, digits, - and _, at most 40")
	}
	return nil
}

// CheckArgument checks an item of Command or Stop.
func CheckArgument(s string) error {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return errors.New("must not contain control characters")
	}
	for _, word := range regexp.MustCompile(`\{+\w+\}+`).FindAllString(s, -1) {
		if strings.Count(word, "{") == 1 && strings.Count(word, "}") == 1 && word != placeholder {
			return errors.New("has a placeholder that does not exist; the only one is " + placeholder)
		}
	}
	return nil
}

// CheckLine checks a whole Command or Stop whose items CheckArgument has passed.
func CheckLine(line []string) error {
	if len(line) > 0 && (line[0] == "" || strings.Contains(line[0], placeholder)) {
		return fmt.Errorf("must begin with a program, whose name is written out without %s", placeholder)
	}
	if len(line) > 0 && strings.Contains(line[0], "/") && !filepath.IsAbs(line[0]) {
		return errors.New("must begin with the name of a program or its absolute path: a relative one leads into each workspace")
	}
	return nil
}

// CheckProgram checks the program on the node.
func CheckProgram(s string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9/._+][A-Za-z0-9/._+-]*$`).MatchString(s) {
		return errors.New("must be the name or path of jp on the node, of letters, digits and /._+- (a shell there may read it)")
	}
	return nil
}

// CheckVariable checks an item of Env.
func CheckVariable(s string) error {
	if name := strings.TrimSuffix(s, "*"); name == "" {
		return errors.New("must name variables: KUBECONFIG, or SLURM_* for all that begin so")
	} else if why := environ.Forbidden(name); why != "" {
		return errors.New(why)
	}
	return nil
}

// Variables returns the names of env ("NAME=value") that Env lets through. A launcher may hand all
// that it has to the node (srun does), so they are without keys, secrets, and what makes programs
// load code.
func (l *Launcher) Variables(env, secrets []string) []string {
	var names []string
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		if slices.ContainsFunc(l.Env, func(allowed string) bool {
			prefix, all := strings.CutSuffix(allowed, "*")
			return allowed == name || all && strings.HasPrefix(name, prefix)
		}) && environ.Forbidden(name) == "" && !slices.Contains(secrets, name) {
			names = append(names, name)
		}
	}
	return names
}
