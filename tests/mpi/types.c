/* SPDX-License-Identifier: BSD-3-Clause */
/* Data that are not contiguous. */
#include "check.h"
#include <stddef.h>

static int other(void)
{
    return rank ^ 1;
}

static void swap(void *out, int n_out, MPI_Datatype t_out, void *in, int n_in, MPI_Datatype t_in)
{
    MPI_Sendrecv(out, n_out, t_out, other(), 5, in, n_in, t_in, other(), 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Send every second of n doubles into contiguous ones, and contiguous doubles into every third one. */
static void vectors(int n)
{
    double *out = get(3 * (size_t)n * sizeof *out), *in = get(3 * (size_t)n * sizeof *in);
    MPI_Datatype second, third;
    MPI_Type_vector(n, 1, 2, MPI_DOUBLE, &second);
    MPI_Type_vector(n, 1, 3, MPI_DOUBLE, &third);
    MPI_Type_commit(&second);
    MPI_Type_commit(&third);
    for (int i = 0; i < 3 * n; i++) {
        out[i] = rank * 1e7 + i;
        in[i] = -1;
    }
    if (rank % 2)
        swap(out, n, MPI_DOUBLE, in, n, MPI_DOUBLE);
    else
        swap(out, 1, second, in, 1, third);
    for (int i = 0; i < n; i++)
        if (rank % 2)
            EXPECT(in[i] == other() * 1e7 + 2 * i);
        else
            EXPECT(in[3 * i] == other() * 1e7 + i && (i == n - 1 || in[3 * i + 1] == -1));
    MPI_Type_free(&second);
    MPI_Type_free(&third);
    free(out);
    free(in);
}

typedef struct particle {
    char kind;
    double x[3];
    short charge;
    int id;
} particle_t;

static void structures(int n)
{
    int lens[] = {1, 3, 1};
    MPI_Aint at[] = {offsetof(particle_t, kind), offsetof(particle_t, x), offsetof(particle_t, id)};
    MPI_Datatype kinds[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT}, t, particle;
    particle_t *out = calloc((size_t)n, sizeof *out), *in = calloc((size_t)n, sizeof *in);
    MPI_Type_create_struct(3, lens, at, kinds, &t);
    MPI_Type_create_resized(t, 0, sizeof(particle_t), &particle);
    MPI_Type_commit(&particle);
    for (int i = 0; i < n; i++) {
        out[i] = (particle_t){(char)i, {rank, i, i * 0.5}, 7, rank * 1000000 + i};
        in[i].charge = 3;
    }
    swap(out, n, particle, in, n, particle);
    for (int i = 0; i < n; i++)
        EXPECT(in[i].kind == (char)i && in[i].x[0] == other() && in[i].x[2] == i * 0.5 &&
               in[i].id == other() * 1000000 + i && in[i].charge == 3);
    MPI_Type_free(&t);
    MPI_Type_free(&particle);
    free(out);
    free(in);
}

/* Columns of a matrix become rows. */
static void transposed(int n)
{
    int *out = get((size_t)n * (size_t)n * sizeof *out), *in = get((size_t)n * (size_t)n * sizeof *in);
    MPI_Datatype column, columns;
    MPI_Type_vector(n, 1, n, MPI_INT, &column);
    MPI_Type_create_resized(column, 0, sizeof(int), &columns);
    MPI_Type_commit(&columns);
    for (int i = 0; i < n * n; i++)
        out[i] = rank * n * n + i;
    swap(out, n, columns, in, n * n, MPI_INT);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            EXPECT(in[i * n + j] == other() * n * n + j * n + i);
    MPI_Type_free(&column);
    MPI_Type_free(&columns);
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 3, 100, 5000, 100000};
    start(&argc, &argv, MPI_THREAD_SINGLE);
    if (rank < size / 2 * 2) {
        for (int i = 0; i < 5; i++)
            vectors(counts[i]);
    }
    check_end("vectors");
    if (rank < size / 2 * 2) {
        for (int i = 0; i < 5; i++)
            structures(counts[i]);
    }
    check_end("structures");
    if (rank < size / 2 * 2) {
        transposed(10);
        transposed(500);
    }
    check_end("transposed");
    return finish();
}
