package command

import (
	"slices"
	"strings"
)

// CompleteCommand is the command of the scripts: jp __complete WORDS... The last word is the one
// under the cursor.
const CompleteCommand = "__complete"

// Candidate is a word that could be at the cursor.
type Candidate struct{ Word, Text string }

// completing is one question for what could come next.
type completing struct {
	*reader
	known func(arg, word string) []Candidate
}

// Candidates returns what could be at the cursor, in word, after the words before it. known returns
// the values that replace what help calls arg and that begin with word. The global flags before the
// cursor are set by then.
func (t *Tree) Candidates(before []string, word string, known func(arg, word string) []Candidate) []Candidate {
	r := completing{&reader{tree: t, args: before}, func(arg, word string) []Candidate { return known(arg, word) }}
	for len(r.args) > 0 {
		arg := r.args[0]
		r.args = r.args[1:]
		switch {
		case arg == "--":
			return nil
		case strings.HasPrefix(arg, "-") && arg != "-":
			if o := r.wanting(arg); o != nil && len(r.args) == 0 {
				return r.values(o, "", word)
			}
			if strings.HasPrefix(arg, "--") {
				_ = r.long(arg) // a mistake further up is not reported here
			} else {
				_ = r.cluster(arg)
			}
		default:
			if r.positional(arg, false) != nil {
				return nil
			}
		}
	}
	if c := r.out.Command(); c != nil && (c.Name == "help" || c.Name == "man") {
		return t.helpCandidates(r.out.Positionals, word)
	}
	if name, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(word, "--") {
		if o := r.find(name); o != nil {
			return r.values(o, name+"=", value)
		}
		return nil
	}
	var out []Candidate
	add := func(word2, text string) {
		if strings.HasPrefix(word2, word) {
			out = append(out, Candidate{word2, text})
		}
	}
	if strings.HasPrefix(word, "-") {
		for _, o := range r.options() {
			for _, s := range o.Spellings() {
				if strings.HasPrefix(s, "--") || word == "-" {
					add(s, o.Usage)
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
	c := r.out.Command()
	if c == nil || len(c.Subcommands) > 0 {
		return out
	}
	s := t.specs[c]
	switch n := len(r.out.Positionals); {
	case c.Name == "completion":
		for _, shell := range []string{"bash", "zsh", "fish"} {
			add(shell, "")
		}
	case s.Max < 0 || n < s.Max:
		for _, k := range r.ask(s.Args, word) {
			if !slices.Contains(r.out.Positionals, k.Word) {
				out = append(out, k)
			}
		}
	}
	return out
}

// wanting returns the option of a flag that takes the next word as its value.
func (r *reader) wanting(arg string) *Option {
	if strings.Contains(arg, "=") {
		return nil
	}
	o := r.find(arg)
	if !strings.HasPrefix(arg, "--") {
		letters := []rune(arg)
		o = r.find("-" + string(letters[len(letters)-1]))
	}
	if o == nil || o.Arg == "" || o.Maybe {
		return nil
	}
	return o
}

// ask returns the known values once the global flags before the cursor, such as --workspace, are
// set.
func (c completing) ask(arg, word string) []Candidate {
	c.tree.SetGlobals(&c.out)
	return c.known(arg, word)
}

// values are the known values of a flag.
func (c completing) values(o *Option, prefix, word string) []Candidate {
	var out []Candidate
	for _, v := range o.Choices {
		if strings.HasPrefix(v, word) {
			out = append(out, Candidate{prefix + v, ""})
		}
	}
	if o.Choices != nil {
		return out
	}
	for _, k := range c.ask(o.Arg, word) {
		out = append(out, Candidate{prefix + k.Word, k.Text})
	}
	return out
}

// helpCandidates are the commands that `jp help` can show.
func (t *Tree) helpCandidates(before []string, word string) []Candidate {
	r := &reader{tree: t}
	for _, name := range before {
		if r.positional(name, false) != nil {
			return nil
		}
	}
	var out []Candidate
	for _, c := range r.commands() {
		if strings.HasPrefix(c.Name, word) {
			out = append(out, Candidate{c.Name, c.Usage})
		}
	}
	return out
}

// Completion returns the script of a shell, "" for a shell that nobody knows. Shells use it for
// ./jp too, which may be anything: the jp of PATH answers for a command with a path.
func Completion(shell string) string {
	return map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[shell]
}

// bash splits words at the characters of COMP_WORDBREAKS, such as = and :. The script joins them
// again where no space is between them, and cuts from the answers the part of the word that bash
// has already. Where bash only lists what is possible (COMP_TYPE 63 is ?), each has its text.
const bashCompletion = `# bash completion for jp
_jp_complete() {
    local line=${COMP_LINE:0:COMP_POINT} words=() answers=() texts=() cur part text i width=0 jp
    local IFS=$' \t\n'
    read -r -a words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    cur=${words[${#words[@]}-1]} jp=${words[0]}
    [[ $jp == */* ]] && jp=jp
    COMPREPLY=()
    while IFS=$'\t' read -r part text; do
        answers+=("$part") texts+=("$text")
    done < <("$jp" __complete "${words[@]:1}" 2>/dev/null)
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
    [[ $COMP_TYPE == 63 && ${#COMPREPLY[@]} -gt 1 ]] || return 0
    for part in "${COMPREPLY[@]}"; do
        (( ${#part} > width )) && width=${#part}
    done
    for i in "${!COMPREPLY[@]}"; do
        [[ ${texts[i]} ]] || continue
        printf -v line '%-*s  (%s)' "$width" "${COMPREPLY[i]}" "${texts[i]}"
        COMPREPLY[i]=${line:0:${COLUMNS:-80}-1}
    done
}
complete -F _jp_complete jp
`

const zshCompletion = `#compdef jp
_jp() {
    local -a answers
    local line word text jp=${words[1]}
    [[ $jp == */* ]] && jp=jp
    while IFS=$'\t' read -r word text; do
        answers+=("${word//:/\\:}${text:+:$text}")
    done < <("$jp" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
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
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i; }
    compdef _jp jp
fi
`

const fishCompletion = `# fish completion for jp
function __jp_complete
    set -l words (commandline -opc)
    set -l jp $words[1]
    string match -q '*/*' -- $jp; and set jp jp
    $jp __complete $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c jp -f -n '__jp_complete | string length -q' -a '(__jp_complete)'
`
