// Package shell proves that a placeholder in a shell text is harmless, or refuses the text.
//
// A tool may be a text that bash or sh reads, with placeholders in it: grep --
// {{tool.arguments.word}} src. A model chooses the values, so a value may be $(rm -rf ~), and it
// must never be more than one piece of text.
//
// # The idea
//
// A value never becomes part of the text. It travels in the environment, in a variable JP_ARG_n (a
// large one in a file that the text reads first), and its placeholder is replaced by an expansion
// of that variable. A shell does three things with the result of an expansion: it splits it into
// words, it takes it for a pattern, and in some places it evaluates it. Inside double quotes it
// does neither of the first two (POSIX, Shell Command Language, 2.2.3 and 2.6), and it never looks
// for quotes, expansions or operators in a result (2.6). So two questions are left: how is the
// place quoted, and does something evaluate what is there?
//
// # How the place is quoted
//
// The text is parsed with a token in the place of each placeholder: an ordinary word, found nowhere
// else in the text. Where the token is in the syntax tree says what to write for it:
//
//	a word without quotes    "${JP_ARG_0}"
//	'...'                    '"${JP_ARG_0}"'
//	$'...'                   '"${JP_ARG_0}"$'
//	"..." and here-documents ${JP_ARG_0}
//
// # What evaluates
//
// From the token the tree is climbed to the whole text, and each step must be one that is known to
// hand a value on as it is. What is not known is refused. Refused are, with what they would do:
//
//   - arithmetic, subscripts, [[ -v ]] and [[ -eq ]]: a[$(cmd)] runs cmd;
//   - patterns, regular expressions, names of variables and functions, ${...}, select, coproc,
//     `...`;
//   - the word that names the command, and arguments of eval, trap, source and the like;
//   - arguments in which a program takes code ([jp/tools/interpreter]), a pipe into one that runs
//     what it reads;
//   - assignment to a variable that means something to a shell or to a program (PATH, IFS, and any
//     in upper case that programs are given), or that has an attribute such as declare -i;
//   - texts with alias, enable, hash, set -k or command_not_found_handle, which change what words
//     mean.
//
// A value that an author assigns to a variable of his own is his from there on: what he does with
// "$x" later is not followed, as it is not in any shell script. An argument that a value begins
// must not begin with '-', unless the definition says so (allow_dash) or a -- is before it.
//
// # Why it holds
//
// The check is done twice. [Text.Check] does it when the definition is loaded, for each branch of
// each block, so that the author sees what is wrong. [Text.Call] decides the blocks for one call
// and does it again, for the text that counts. Then it parses what it has written, and the
// expansions of JP_ARG_n in it must be those that it meant, in this order, each quoted. A text for
// sh is read as POSIX and as bash, since sh is bash on some systems, and both must agree.
//
// What is trusted is that mvdan.cc/sh parses a text as the shell does. The tests run each kind of
// place with hostile values in the shells that are installed, and fuzz targets do so with texts of
// their own. It is no sandbox: what an author's text does by itself is confined by jp/tools/proc.
package shell
