package interpreter

import (
	"fmt"
	"slices"
	"strings"
)

// runningModules are modules of Python that run what their arguments name. Others count as scripts
// of the author.
var runningModules = strings.Fields(`
	IPython build cProfile code coverage doctest ensurepip fabric hatch idlelib invoke ipykernel jupyter nox pdb pip pipx poetry
	profile pytest runpy timeit torch tox trace unittest uv venv virtualenv zipapp
`)

// pythonModule is the first part of the name that python -m is given in args, "" if it is none.
func pythonModule(args []Argument) string {
	for i := 0; i < len(args); i++ {
		text, literal := args[i].Literal()
		if !literal || len(text) < 2 || text[0] != '-' || text[1] == '-' {
			return ""
		}
		at := strings.IndexAny(text, "cmWX")
		if at < 0 {
			continue
		}
		value := text[at+1:]
		if value == "" {
			if i++; i == len(args) {
				return ""
			}
			value, _ = args[i].Literal()
		}
		switch text[at] {
		case 'c':
			return ""
		case 'm':
			name, _, _ := strings.Cut(value, ".")
			return name
		}
	}
	return ""
}

// checkJava refuses placeholders in what java runs, and in the options before it. All arguments
// behind that go to the Java program.
func checkJava(args []Argument) error {
	for i := 0; i < len(args); i++ {
		text, literal := args[i].Literal()
		switch {
		case !literal:
			return fmt.Errorf("a placeholder in argument %d of java: it names what is run, or an option of it", i+1)
		case text == "-jar" || text == "-m" || text == "--module":
			if i++; i < len(args) {
				if _, literal := args[i].Literal(); !literal {
					return fmt.Errorf("a placeholder in argument %d of java: it names what is run", i+1)
				}
			}
			return nil
		case slices.Contains([]string{"-cp", "-classpath", "--class-path", "-p", "--module-path", "--upgrade-module-path", "--add-modules"}, text):
			if i++; i < len(args) {
				if _, literal := args[i].Literal(); !literal {
					return fmt.Errorf("a placeholder in argument %d of java: it names where code is loaded from", i+1)
				}
			}
		case !strings.HasPrefix(text, "-"):
			return nil
		}
	}
	return nil
}

// containerFlags are the options of docker run and exec and the like that take no value. Any other
// option counts as one that takes a value.
var containerFlags = strings.Fields("-i -t -d -q -it -ti --interactive --tty --detach --rm --init --privileged --read-only --quiet --no-healthcheck --stdin")

// checkContainer refuses placeholders up to the command that is run in a container. The rest is
// checked as the arguments of that command.
func checkContainer(program string, args []Argument, dash map[string]bool) error {
	at := slices.IndexFunc(args, func(a Argument) bool {
		text, literal := a.Literal()
		return literal && (text == "exec" || text == "run" || text == "create")
	})
	if at < 0 {
		return nil
	}
	refuse := func(i int) error {
		return fmt.Errorf("a placeholder in argument %d of %s: it names what is run, or where", i+1, program)
	}
	operands := 0
	for i := at + 1; i < len(args); i++ {
		text, literal := args[i].Literal()
		switch {
		case !literal:
			return refuse(i)
		case text == "--":
			operands = 1
		case !strings.HasPrefix(text, "-"):
			if operands++; operands == 2 {
				return Check(text, args[i+1:], dash)
			}
		case !slices.Contains(containerFlags, text) && !strings.Contains(text, "="):
			if i++; i < len(args) {
				if _, literal := args[i].Literal(); !literal {
					return refuse(i)
				}
			}
		}
	}
	return nil
}
