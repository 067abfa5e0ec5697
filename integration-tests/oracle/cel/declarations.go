package main

import (
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/google/cel-go/common/types"

	dracel "k8s.io/dynamic-resource-allocation/cel"
)

// declare prints the environment's overloads, one tab-separated line each: function, overload, "member" or "global", argument types, result
// type. A function's overloads are in the environment's order.
func declare(out io.Writer) error {
	compiled := dracel.GetCompiler(features).CompileCELExpression("true", dracel.Options{DisableCostEstimation: true})
	if compiled.Error != nil {
		return compiled.Error
	}
	functions := compiled.Environment.Functions()
	names := make([]string, 0, len(functions))
	for name := range functions {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if functions[name].IsDeclarationDisabled() {
			continue
		}
		for _, overload := range functions[name].OverloadDecls() {
			kind := "global"
			if overload.IsMemberFunction() {
				kind = "member"
			}
			arguments := make([]string, 0, len(overload.ArgTypes()))
			for _, argument := range overload.ArgTypes() {
				arguments = append(arguments, write(argument))
			}
			_, err := fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n",
				name, overload.ID(), kind, strings.Join(arguments, "; "), write(overload.ResultType()))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// write prints a type's name; type parameters start with a dollar sign.
func write(t *types.Type) string {
	if t.Kind() == types.TypeParamKind {
		return "$" + t.TypeName()
	}
	if len(t.Parameters()) == 0 {
		return t.TypeName()
	}
	parameters := make([]string, 0, len(t.Parameters()))
	for _, parameter := range t.Parameters() {
		parameters = append(parameters, write(parameter))
	}
	return t.TypeName() + "<" + strings.Join(parameters, ", ") + ">"
}
