// Package tools defines what a model can call and calls it.
//
// A tool is a name, a JSON schema and something that runs. A [Definition] is what a TOML file or
// table says about a tool; with a [Func] it is a [Tool]; an immutable [Set] of tools is both what
// is offered to a model and what it can call, so the two cannot drift apart. An [Executor] runs the
// calls of one reply: it validates arguments, asks for permission, bounds time and output, and
// turns everything that goes wrong into a result that the model can read.
//
// Tools come from several sources. The built-in fs_* tools ([Builtin]) and local commands
// ([Command]) are made here. For tools of other sources ([Embedded] has their definitions) the
// caller supplies the Func.
//
// Three things to know:
//
//   - An argument is data. It is never split, never a shell text, never a flag
//     unless its author said so, and never a path that leaves its root.
//   - Definitions are strict: an unknown key, a placeholder that names no
//     parameter, or something that this version cannot enforce is an error
//     with a position when it is loaded, not a surprise when it is called.
//   - A Func may panic or fail; it must honour its context, because nothing
//     can stop a goroutine that does not.
package tools
