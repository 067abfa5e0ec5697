package main

// Reproducible random numbers.

import "math/rand"

type dice struct{ *rand.Rand }

func newDice(seed int64) dice { return dice{rand.New(rand.NewSource(seed))} }

// chance is true with this probability in percent.
func (d dice) chance(percent int) bool { return d.Intn(100) < percent }

// between returns a number from low to high, inclusive.
func (d dice) between(low, high int) int { return low + d.Intn(high-low+1) }

// pick returns one of the choices.
func pick[T any](d dice, choices ...T) T { return choices[d.Intn(len(choices))] }

// some returns between low and high of the choices, in order.
func some[T any](d dice, low, high int, choices ...T) []T {
	left := min(d.between(low, high), len(choices))
	var picked []T
	for i, choice := range choices {
		if left > 0 && d.Intn(len(choices)-i) < left {
			picked = append(picked, choice)
			left--
		}
	}
	return picked
}

func pointer[T any](value T) *T { return &value }
