package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/term"
	"jp/tools/unseen"
)

// completeCommand is what the scripts call: jp __complete WORDS..., the last word being the one under the cursor.
const completeCommand = "__complete"

func newCompletionCommand(a *app) *cli.Command {
	return a.command(spec{
		Name: "completion", Summary: "print a completion script for a shell", Args: "bash|zsh|fish",
		About: "The script asks this program for what could come next: commands, flags, conversations with their titles, profiles, " +
			"tools, models and settings. Nothing is changed or waited for, and no file read of a workspace that is not trusted.\n\n" +
			"bash: add `eval \"$(jp completion bash)\"` to ~/.bashrc. zsh: `jp completion zsh > ~/.zfunc/_jp` with that folder in " +
			"fpath. fish: `jp completion fish > ~/.config/fish/completions/jp.fish`.",
		Min: 1, Max: 1,
		Exits:    []exit.Status{},
		Examples: []string{`jp completion bash`},
		Run: func(_ context.Context, args []string) error {
			script, ok := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[args[0]]
			if !ok {
				return exit.Usagef("completion: unknown shell %q", args[0]).WithHint("%s", didYouMean(args[0], []string{"bash", "zsh", "fish"}, "bash, zsh or fish"))
			}
			_, err := io.WriteString(a.io.Out, script)
			return err
		},
	})
}

// candidate is something that could stand at the cursor.
type candidate struct{ word, text string }

// complete writes what could stand in place of the last word: WORD, a tab, what it means. Nothing means file names.
func (a *app) complete(words []string) error {
	if len(words) == 0 {
		words = []string{""}
	}
	return a.text(func(w *bufio.Writer) error {
		for _, c := range a.candidates(words[:len(words)-1], words[len(words)-1]) {
			if unseen.Spell(c.word) != c.word {
				continue // a word of which not all shows would be more than one candidate, or another than it seems
			}
			fmt.Fprintln(w, c.word+"\t"+term.Line(c.text))
		}
		return nil
	})
}

func (a *app) candidates(before []string, word string) []candidate {
	r := &reader{root: a.root, args: before}
	for len(r.args) > 0 {
		arg := r.args[0]
		r.args = r.args[1:]
		switch {
		case arg == "--":
			return nil
		case strings.HasPrefix(arg, "-") && arg != "-":
			if o := r.wanting(arg); o != nil && len(r.args) == 0 {
				return a.values(r, o, "", word)
			}
			if strings.HasPrefix(arg, "--") {
				_ = r.long(arg) // a mistake further up is not ours to tell
			} else {
				_ = r.cluster(arg)
			}
		default:
			if r.positional(arg, false) != nil {
				return nil
			}
		}
	}
	if c := r.out.command(); c != nil && (c.Name == "help" || c.Name == "man") {
		return a.helpCandidates(r.out.positionals, word)
	}
	if name, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(word, "--") {
		if o := r.find(name); o != nil {
			return a.values(r, o, name+"=", value)
		}
		return nil
	}
	var out []candidate
	add := func(word2, text string) {
		if strings.HasPrefix(word2, word) {
			out = append(out, candidate{word2, text})
		}
	}
	if strings.HasPrefix(word, "-") {
		for _, o := range r.options() {
			for _, s := range o.spellings() {
				if strings.HasPrefix(s, "--") || word == "-" {
					add(s, o.usage)
				}
			}
		}
		add("--help", "show what the command does")
		return out
	}
	for _, c := range r.commands() {
		if !c.Hidden {
			add(c.Name, c.Usage)
		}
	}
	c := r.out.command()
	if c == nil || len(c.Subcommands) > 0 {
		return out
	}
	s := a.specs[c]
	switch n := len(r.out.positionals); {
	case c.Name == "completion":
		for _, shell := range []string{"bash", "zsh", "fish"} {
			add(shell, "")
		}
	case s.Max < 0 || n < s.Max:
		a.settle(r)
		for _, k := range a.known(context.Background(), s.Args, word) {
			if !slices.Contains(r.out.positionals, k.word) {
				out = append(out, k)
			}
		}
	}
	return out
}

// wanting returns the option of a flag that takes the next word as its value.
func (r *reader) wanting(arg string) *option {
	if strings.Contains(arg, "=") {
		return nil
	}
	o := r.find(arg)
	if !strings.HasPrefix(arg, "--") {
		letters := []rune(arg)
		o = r.find("-" + string(letters[len(letters)-1]))
	}
	if o == nil || o.arg == "" || o.maybe {
		return nil
	}
	return o
}

// settle applies the global flags that stand before the cursor, as --workspace.
func (a *app) settle(r *reader) { a.takeGlobals(&r.out) }

// values are the known values of a flag.
func (a *app) values(r *reader, o *option, prefix, word string) []candidate {
	var out []candidate
	a.settle(r)
	for _, k := range a.known(context.Background(), o.arg, word) {
		out = append(out, candidate{prefix + k.word, k.text})
	}
	for _, v := range o.choices {
		if strings.HasPrefix(v, word) {
			out = append(out, candidate{prefix + v, ""})
		}
	}
	return out
}

// helpCandidates are the commands that `jp help` could be asked about.
func (a *app) helpCandidates(before []string, word string) []candidate {
	r := &reader{root: a.root}
	for _, name := range before {
		if r.positional(name, false) != nil {
			return nil
		}
	}
	var out []candidate
	for _, c := range r.commands() {
		if strings.HasPrefix(c.Name, word) {
			out = append(out, candidate{c.Name, c.Usage})
		}
	}
	return out
}

// bash splits words at the characters of COMP_WORDBREAKS, = and : among them; the line is put together again by its spaces,
// and what bash has already taken of the word is cut from the answers.
const bashCompletion = `# bash completion for jp
_jp_complete() {
    local line=${COMP_LINE:0:COMP_POINT} words=() answers=() cur part
    local IFS=$' \t\n'
    read -r -a words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    cur=${words[${#words[@]}-1]}
    COMPREPLY=()
    while IFS=$'\t' read -r part _; do
        answers+=("$part")
    done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
    local taken=""
    if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then
        taken=${cur%:*}:
    elif [[ $cur == *=* && $COMP_WORDBREAKS == *=* ]]; then
        taken=${cur%=*}=
    fi
    for part in "${answers[@]}"; do
        COMPREPLY+=("${part#"$taken"}")
    done
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace 2>/dev/null
    fi
    if [[ ${#COMPREPLY[@]} -eq 0 ]]; then
        compopt -o default 2>/dev/null
    fi
}
complete -F _jp_complete jp
`

const zshCompletion = `#compdef jp
_jp() {
    local -a answers
    local line word text
    while IFS=$'\t' read -r word text; do
        answers+=("${word//:/\\:}${text:+:$text}")
    done < <("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( ${#answers} )); then
        _describe -V jp answers
    else
        [[ $PREFIX != --*=* ]] || compset -P '*='
        _files
    fi
}
if [[ $funcstack[1] == _jp ]]; then
    _jp "$@"
else
    compdef _jp jp
fi
`

const fishCompletion = `# fish completion for jp
function __jp_complete
    set -l words (commandline -opc)
    $words[1] __complete $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c jp -f -n 'test -n "(__jp_complete)"' -a '(__jp_complete)'
`
